// PLACES[p] are the source lines [source, line] that a row with data-p = p comes from, the innermost first.
"use strict";

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const columns = all("section").map((section) => ({
  section,
  name: section.dataset.name,
  list: section.querySelector("ol"),
  canvas: section.querySelector("canvas"),
  found: section.querySelector(".found"),
  rows: all("li", section),
  hits: [],
}));
const columnOf = new Map(columns.map((column) => [column.section, column]));

// Rows by source line: those that come from it directly or through calls.
const rowsOf = new Map();
for (const column of columns)
  for (const row of column.rows)
    for (const key of PLACES[row.dataset.p] ?? []) {
      const name = key.join(":");
      if (!rowsOf.has(name)) rowsOf.set(name, []);
      rowsOf.get(name).push(row);
    }

let marked = [];
let pinned = null;

function show(row) {
  for (const each of marked) each.classList.remove("hit", "via", "origin");
  marked = [];
  for (const column of columns) column.hits = [];
  const place = row ? PLACES[row.dataset.p] : null;
  if (place) {
    const [first, ...callers] = place.map((key) => key.join(":"));
    const hits = new Set(rowsOf.get(first));
    const sources = columns.filter((column) => column.section.dataset.kind === "source");
    for (const name of callers)
      for (const each of rowsOf.get(name))
        if (!hits.has(each) && sources.includes(columnOf.get(each.closest("section")))) mark(each, "via");
    for (const each of hits) {
      mark(each, "hit");
      columnOf.get(each.closest("section")).hits.push(each);
    }
    mark(row, "origin");
  }
  for (const column of columns) {
    const count = column.section.dataset.kind === "source" ? 0 : column.hits.length;
    column.found.textContent = count ? `${count} line${count === 1 ? "" : "s"}` : "";
    drawStrip(column);
  }
}

function mark(row, name) {
  row.classList.add(name);
  marked.push(row);
}

// Where in the column the marked lines are, beside its scroll bar.
function drawStrip({ list, canvas, rows, hits }) {
  const height = list.clientHeight;
  if (!height) return;
  canvas.style.height = `${height}px`;
  canvas.width = 8;
  canvas.height = height;
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--hit-edge");
  const scale = height / list.scrollHeight;
  for (const row of hits) context.fillRect(2, (row.offsetTop - list.offsetTop) * scale, 6, Math.max(2, row.offsetHeight * scale));
}

function scrollTo(list, row) {
  const above = row.offsetTop - list.offsetTop;
  const visible = above >= list.scrollTop && above < list.scrollTop + list.clientHeight - row.offsetHeight;
  if (!visible) list.scrollTop = above - list.clientHeight / 3;
}

function pin(row) {
  pinned = row && row !== pinned && PLACES[row.dataset.p] ? row : null;
  document.body.classList.toggle("pinned", pinned !== null);
  show(pinned ?? row);
  if (!pinned) return;
  for (const { section, list, hits } of columns)
    if (section !== pinned.closest("section") && hits.length) scrollTo(list, hits[0]);
}

function focusRow(row) {
  if (!row) return;
  const before = document.activeElement;
  if (before?.tagName === "LI") before.removeAttribute("tabindex");
  row.tabIndex = -1;
  row.focus({ preventScroll: true });
  scrollTo(row.parentElement, row);
  if (!pinned) show(row);
}

const main = document.querySelector("main");
main.addEventListener("pointerover", (event) => {
  const row = event.target.closest("li");
  if (row && !pinned) show(row);
});
main.addEventListener("pointerleave", () => pinned || show(null));
main.addEventListener("click", (event) => {
  const row = event.target.closest("li");
  if (row && getSelection().isCollapsed) {
    focusRow(row);
    pin(row);
  }
});

// The line that a key starts from: the one with the focus, or the first that is seen in the column with the focus.
function current() {
  const active = document.activeElement;
  if (active?.tagName === "LI") return active;
  if (active?.tagName !== "OL") return null;
  const row = columnOf.get(active.closest("section")).rows.find((each) => each.offsetTop - active.offsetTop >= active.scrollTop);
  return row ?? null;
}

const moves = {
  ArrowDown: (row) => row.nextElementSibling,
  ArrowUp: (row) => row.previousElementSibling,
  ArrowRight: (row) => across(row, 1),
  ArrowLeft: (row) => across(row, -1),
  n: (row) => among(row, 1),
  p: (row) => among(row, -1),
};

function across(row, step) {
  const shown = columns.filter((column) => !column.section.hidden);
  const column = shown[shown.findIndex((each) => each.section === row.closest("section")) + step];
  if (!column) return null;
  column.section.scrollIntoView({ block: "nearest", inline: "nearest" });
  return column.hits[0] ?? column.rows.find((each) => each.offsetTop - column.list.offsetTop >= column.list.scrollTop);
}

function among(row, step) {
  const { hits } = columnOf.get(row.closest("section"));
  if (!hits.length) return null;
  const at = hits.indexOf(row);
  const following = hits.findIndex((each) => row.compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING);
  const from = at >= 0 ? at + step : step > 0 ? following : following - 1;
  return hits[(from + hits.length) % hits.length];
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const row = current();
  if (event.key === "Escape") pinned ? pin(pinned) || show(null) : show(null);
  else if (!row) return;
  else if (event.key === "Enter" || event.key === " ") pin(row);
  else if (event.key in moves) focusRow(moves[event.key](row));
  else return;
  event.preventDefault();
});

// Which columns are seen is kept in the address: page.html#poly.slang,lanes,asm
const boxes = all("#columns input");
const usual = boxes.filter((box) => box.checked).map((box) => box.value);

function choose(names) {
  for (const box of boxes) box.checked = names.includes(box.value);
  for (const { section, name } of columns) section.hidden = !names.includes(name);
  for (const column of columns) drawStrip(column);
}

const chosen = () => boxes.filter((box) => box.checked).map((box) => box.value);
const remember = () => history.replaceState(null, "", `#${chosen().map(encodeURIComponent).join(",")}`);

document.querySelector("#columns").addEventListener("change", () => {
  choose(chosen());
  remember();
});
for (const button of all("[data-show]"))
  button.addEventListener("click", () => {
    choose(button.dataset.show === "all" ? boxes.map((box) => box.value) : usual);
    remember();
  });
if (location.hash.length > 1) choose(location.hash.slice(1).split(",").map(decodeURIComponent));

document.querySelector("#theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  show(pinned);
});
addEventListener("resize", () => columns.forEach(drawStrip));
