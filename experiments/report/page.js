// The page: names show and hide the groups of their curves, the cursor reads rows of the CSV; commands are copied; links open what they lead to.
function number(text) { return text === "" ? "–" : String(+(+text).toPrecision(3)); }

for (const figure of document.querySelectorAll("figure.chart")) {
  const picture = figure.querySelector(".plot"), tip = figure.querySelector(".tip");
  const names = [...figure.querySelectorAll(".legend button")], hits = [...figure.querySelectorAll("[id*='-hit-']")];
  for (const name of names) name.addEventListener("click", () => {
    const on = name.getAttribute("aria-pressed") !== "true";
    name.setAttribute("aria-pressed", String(on));
    for (const curve of name.dataset.curves.split(" ")) {
      for (const part of picture.querySelectorAll(`[id$="-curve-${curve}"], [id$="-band-${curve}"]`)) part.classList.toggle("off", !on);
    }
  });

  let rows, row = -1;
  function read(index) {
    rows ??= decodeURIComponent(figure.querySelector("a.csv").href.replace(/^[^,]*,/, "")).trim().split("\n").map((line) => line.split(","));
    row = Math.max(0, Math.min(index, hits.length - 1));
    const [head, cells] = [rows[0], rows[row + 1]], lines = [`${head[0]} ${cells[0]}`];
    head.forEach((name, i) => {
      if (!name.endsWith("_mean") || cells[i] === "" || head[i - 1].endsWith("_x")) return;
      const band = head[i + 1]?.endsWith("_low") && cells[i + 1] !== "" ? ` (${number(cells[i + 1])} to ${number(cells[i + 2])})` : "";
      lines.push(`${name.slice(0, -5)}: ${number(cells[i])}${band}`);
    });
    tip.textContent = lines.join("\n");
    hits.forEach((hit, i) => hit.classList.toggle("at", i === row));
  }
  function leave() { row = -1; tip.textContent = ""; for (const hit of hits) hit.classList.remove("at"); }
  if (!hits.length) continue;
  const point = (event) => { const hit = event.target.closest("[id*='-hit-']"); if (hit) read(hits.indexOf(hit)); };
  picture.addEventListener("pointermove", point);
  picture.addEventListener("pointerdown", point);
  picture.addEventListener("pointerleave", leave);
  picture.addEventListener("blur", leave);
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowRight: row + 1, ArrowLeft: row - 1, Home: 0, End: hits.length - 1 }[event.key];
    if (step !== undefined) { event.preventDefault(); read(step); }
    if (event.key === "Escape") leave();
  });
}
const said = document.querySelector(".said");
let silence;
function say(text) {
  said.textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => { said.textContent = ""; }, 2500);
}
async function copy(text) {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  await copy(button.previousElementSibling.textContent);
  button.focus();
  say("copied");
});

function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const inner = target.querySelector(":scope > details");
  if (inner) inner.open = true;
  for (let outer = target.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", openTarget);
openTarget();

const all = document.querySelector(".open-all");
all?.addEventListener("click", () => {
  const open = all.getAttribute("aria-expanded") !== "true";
  for (const run of document.querySelectorAll("details.run")) run.open = open;
  all.setAttribute("aria-expanded", String(open));
  all.textContent = open ? "close all runs" : "open all runs";
});
