// The page: names show and hide the groups of their curves, the cursor reads rows of the CSV; commands are copied; links open what they lead to; cells know their columns, for narrow screens.
function number(text, error) {
  const value = +text, size = Math.abs(value);
  if (text === "") return "–";
  if (error && size < 1e-12) return "exact";
  return 0 < size && size < 1e-4 ? value.toExponential(2) : String(+value.toPrecision(3));
}

for (const figure of document.querySelectorAll("figure.chart")) {
  const picture = figure.querySelector(".plot"), tip = figure.querySelector(".tip"), labels = [];
  const names = [...figure.querySelectorAll(".legend button")], hits = [...figure.querySelectorAll("[id*='-hit-']")];
  for (const name of names) {
    for (const curve of name.dataset.curves.split(" ")) labels[curve] = name.textContent.trim();
    name.addEventListener("click", () => {
      const on = name.getAttribute("aria-pressed") !== "true";
      name.setAttribute("aria-pressed", String(on));
      for (const curve of name.dataset.curves.split(" ")) {
        for (const part of picture.querySelectorAll(`[id$="-curve-${curve}"], [id$="-band-${curve}"]`)) part.classList.toggle("off", !on);
      }
    });
  }

  let rows, row = -1;
  function read(index) {
    rows ??= decodeURIComponent(figure.querySelector("a.csv").href.replace(/^[^,]*,/, "")).trim().split("\n").map((line) => line.split(","));
    row = Math.max(0, Math.min(index, hits.length - 1));
    const [head, cells] = [rows[0], rows[row + 1]], lines = [], error = /error/.test(picture.ariaLabel);
    let curve = 0;
    head.forEach((name, i) => {
      if (!name.endsWith("_mean")) return;
      const label = labels[curve++];
      if (!label || cells[i] === "" || head[i - 1].endsWith("_x")) return;
      const band = head[i + 1]?.endsWith("_low") && cells[i + 1] !== "" && !(error && Math.abs(cells[i]) < 1e-12);
      lines.push(`${label} ${number(cells[i], error)}${band ? ` (${number(cells[i + 1])} to ${number(cells[i + 2])})` : ""}`);
    });
    tip.textContent = lines.length ? `${head[0]} = ${cells[0]}: ${lines.join("; ")}` : "";
    hits.forEach((hit, i) => hit.classList.toggle("at", i === row));
    return lines.length;
  }
  function leave() {  // the caption of a picture that nobody points at: its last values
    if (!hits.length || read(hits.length - 1) > 8) tip.textContent = "";
    row = -1;
    for (const hit of hits) hit.classList.remove("at");
  }
  leave();
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
for (const table of document.querySelectorAll("table")) {
  for (const cell of table.querySelectorAll("tbody tr > *")) cell.dataset.column = table.tHead.rows[0].cells[cell.cellIndex].textContent;
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
