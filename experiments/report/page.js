// The page: figures are drawn when they come near the screen; commands are copied; links open what they lead to.
const charts = new Map();
function drawn(figure) {
  if (!charts.has(figure)) charts.set(figure, new Chart(figure));
}
const near = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) { near.unobserve(entry.target); drawn(entry.target); }
}, { rootMargin: "600px" });
for (const figure of document.querySelectorAll("figure.chart")) near.observe(figure);
addEventListener("beforeprint", () => {
  for (const figure of document.querySelectorAll("figure.chart")) if (!figure.closest("details:not([open])")) drawn(figure);
});

const said = document.querySelector(".said");
let silence;
function say(text) {
  said.textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => { said.textContent = ""; }, 2500);
}
async function copy(text) {
  try { await navigator.clipboard.writeText(text); } catch {
    const area = add(document.body, "textarea", { "aria-hidden": "true" });
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
