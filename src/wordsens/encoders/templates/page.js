"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const target = document.getElementById("target");
const buttons = [...document.querySelectorAll(".text button")];
const by = () => document.querySelector("input[name=by]:checked").value;
const chosen = new Map();
function made(name, text, kind) {
  const element = document.createElement(name);
  element.textContent = text;
  if (kind) element.className = kind;
  return element;
}
function colour() {
  const most = data.scale[target.value][by()];
  for (const button of buttons) {
    const own = data.words[button.dataset.at];
    const found = own.tried ? own.by[target.value] : null;
    const value = found ? found[by()] : null;
    button.style.setProperty("--share", most && value ? value / most : 0);
    if (!found) continue;
    const best = by() === "word" && found.new.length ? `, as ${found.new[0].word}` : "";
    button.title = value === null ? "not searched" : value.toFixed(3) + best;
  }
  document.getElementById("scale").textContent = most
    ? `Darkest: ${most.toFixed(3)}, the largest relative change of ${data.names[target.value]}.`
    : `Any Δ was not searched for ${data.names[target.value]}; choose another layer or real words.`;
}
function show(section, at) {
  const own = data.words[at], found = own.by[target.value];
  const table = document.createElement("table"), head = table.createTHead().insertRow();
  for (const name of ["becomes", "change", "distance", "verdict"]) {
    if (name === "verdict" && !found.new.some((each) => each.verdict !== null)) continue;
    head.append(made("th", name === "verdict" ? data.answer : name, name === "becomes" || name === "verdict" ? "" : "number"));
  }
  const body = table.createTBody();
  for (const each of found.new) {
    const row = body.insertRow();
    row.append(made("td", each.word), made("td", each.change.toFixed(3), "number"), made("td", each.distance.toFixed(2), "number"));
    if (each.verdict !== null) row.append(made("td", each.verdict));
  }
  const lines = [made("h3", own.piece)];
  if (found.delta !== null) lines.push(made("p", `Any Δ of the word's own length: ${found.delta.toFixed(3)} found.`));
  section.querySelector(".word").replaceChildren(...lines, table);
}
function choose(button) {
  const section = button.closest("section");
  chosen.set(section, button.dataset.at);
  for (const each of section.querySelectorAll(".text button")) each.setAttribute("aria-pressed", String(each === button));
  show(section, button.dataset.at);
}
for (const button of buttons) button.addEventListener("click", () => choose(button));
document.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const at = buttons.indexOf(document.activeElement);
  if (!step || at < 0) return;
  for (let next = at + step; next >= 0 && next < buttons.length; next += step) {
    if (!buttons[next].disabled) { buttons[next].focus(); choose(buttons[next]); event.preventDefault(); return; }
  }
});
document.querySelector("form").addEventListener("change", () => { colour(); for (const [section, at] of chosen) show(section, at); });
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
let closed = [];
addEventListener("beforeprint", () => { closed = [...document.querySelectorAll("details:not([open])")]; for (const each of closed) each.open = true; });
addEventListener("afterprint", () => { for (const each of closed) each.open = false; });
colour();
