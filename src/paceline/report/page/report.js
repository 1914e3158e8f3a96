"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const PARTS = [
  ["computation", "computes"], ["last_rank", "waits for the last rank"],
  ["negotiation", "waits until the ranks agree"], ["transfer", "waits for bytes"],
];

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function drawing(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

function duration(microseconds) {
  const [unit, scale] = microseconds >= 1e6 ? ["s", 1e6] : microseconds >= 1e3 ? ["ms", 1e3] : ["us", 1];
  return `${Number((microseconds / scale).toPrecision(3))} ${unit}`;
}

function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) { count /= 1000; unit += 1; }
  return `${Number(count.toPrecision(3))} ${units[unit]}`;
}

const label = (rank) => `${data.ranks[rank][0]} ${data.ranks[rank][1]}`;

// Ranks over time.
function timeline(place) {
  const count = data.steps[0].length;
  const state = { first: Math.max(0, count - 5), shown: Math.min(5, count) };
  const said = element("output", { className: "faint" });
  const earlier = element("button", { type: "button", textContent: "Earlier" });
  const later = element("button", { type: "button", textContent: "Later" });
  const choice = element("select", { ariaLabel: "Steps to show" });
  for (const number of [1, 2, 5, 10, 20, 50, 100]) {
    if (number <= count) choice.append(element("option", { value: number, textContent: `${number} step${number > 1 ? "s" : ""}` }));
  }
  choice.value = [...choice.options].map((one) => Number(one.value)).filter((one) => one <= 5).pop();
  state.shown = Number(choice.value);
  state.first = count - state.shown;
  const picture = drawing("svg", { role: "img" });
  const keys = element("ul", { className: "keys" });
  for (const [part, name] of PARTS) keys.append(element("li", {}, element("span", { className: `key ${part}` }), name));
  place.append(element("div", { className: "controls" }, earlier, later, choice, said), picture, keys);

  function draw() {
    state.first = Math.max(0, Math.min(state.first, count - state.shown));
    const end = state.first + state.shown;
    const begin = Math.min(...data.steps.map((row) => row[state.first][0]));
    const span = Math.max(...data.steps.map((row) => row[end - 1].at(-1))) - begin;
    const width = Math.max(320, place.clientWidth);
    const left = Math.min(160, width / 3), high = 20, height = data.ranks.length * high + 26;
    const x = (moment) => left + (width - left - 10) * (moment - begin) / span;
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("height", height);
    picture.replaceChildren();
    data.steps.forEach((row, rank) => {
      const shown = label(rank);
      const text = drawing("text", { x: 0, y: rank * high + 14 }, shown.length > left / 7.5 ? `${shown.slice(0, left / 7.5 - 1)}…` : shown);
      picture.append(text);
      for (let step = state.first; step < end; step += 1) {
        let from = row[step][0];
        for (let place = 1; place < row[step].length; place += 2) {
          const [part, name] = PARTS[row[step][place]], to = row[step][place + 1];
          const box = drawing("rect", { x: x(from), y: rank * high + 2, width: Math.max(.5, x(to) - x(from) - .5), height: high - 4, class: part });
          box.append(drawing("title", {}, `rank ${shown}, step ${step + 1}: ${name} for ${duration(to - from)}`));
          picture.append(box);
          from = to;
        }
      }
    });
    const bottom = data.ranks.length * high + 4;
    picture.append(drawing("line", { x1: left, x2: width - 10, y1: bottom, y2: bottom, class: "axis" }));
    const ticks = width > 600 ? 5 : 2;
    for (let tick = 0; tick <= ticks; tick += 1) {
      const anchor = tick === 0 ? "start" : tick === ticks ? "end" : "middle";
      picture.append(drawing("text", { x: left + (width - left - 10) * tick / ticks, y: bottom + 16, class: "tick", "text-anchor": anchor }, duration(span * tick / ticks)));
    }
    const words = `Steps ${state.first + 1} to ${end} of ${count}, ${duration(span)}`;
    said.textContent = words;
    picture.setAttribute("aria-label", `${words}: when each rank computes and waits. The table below has the means.`);
    earlier.disabled = state.first === 0;
    later.disabled = end === count;
  }
  earlier.addEventListener("click", () => { state.first -= state.shown; draw(); });
  later.addEventListener("click", () => { state.first += state.shown; draw(); });
  choice.addEventListener("change", () => { state.shown = Number(choice.value); draw(); });
  new ResizeObserver(draw).observe(place);
  window.addEventListener("beforeprint", draw);
  draw();
}

// Tensors, which can be sorted, searched and opened.
const COLUMNS = [
  ["name", "tensor", (one) => one.name], ["bytes", "bytes", (one) => bytes(one.bytes)],
  ["waited", "waits for the last rank", (one) => duration(one.waited)],
  ["exchanged", "takes from there", (one) => duration(one.exchanged)],
];
const FEW = 20;

function tensorTable(place) {
  const state = { column: "waited", down: true, all: false };
  const search = element("input", { type: "search", ariaLabel: "Search tensors by name", placeholder: "Search by name" });
  const more = element("button", { type: "button" });
  const said = element("output", { className: "faint" });
  const heads = element("tr"), body = element("tbody");
  const columns = COLUMNS.map(([column, title]) => {
    const button = element("button", { type: "button", className: "sort" });
    const cell = element("th", { scope: "col", className: column === "name" ? "" : "number" }, button);
    button.addEventListener("click", () => {
      state.down = state.column === column ? !state.down : column !== "name";
      state.column = column;
      fill();
    });
    heads.append(cell);
    return [column, title, cell, button];
  });
  const caption = element("caption", { textContent: "Tensors of a step, means over the steps that are known" });
  const table = element("table", {}, caption, element("thead", {}, heads), body);
  const region = element("div", { className: "scroll", tabIndex: 0, ariaLabel: "Tensors of a step" }, table);
  region.setAttribute("role", "region");
  place.append(element("div", { className: "controls" }, search, more, said), region);

  function lateness(one) {
    const most = Math.max(1, ...one.late);
    const rows = one.late.map((late, rank) => {
      const bar = element("i");
      bar.style.width = `${100 * late / most}%`;
      return element("li", {}, element("span", { textContent: `rank ${label(rank)}` }), element("span", {}, bar), element("span", { textContent: duration(late) }));
    });
    const cell = element("td", { colSpan: COLUMNS.length, className: "late" },
      element("p", { className: "faint", textContent: `How long after the first rank each one submitted it, over ${one.steps} steps` }), element("ol", {}, ...rows));
    return element("tr", {}, cell);
  }

  function rowsOf(one) {
    const button = element("button", { type: "button", className: "open", textContent: one.name });
    button.setAttribute("aria-expanded", "false");
    const row = element("tr", {}, element("th", { scope: "row" }, button));
    for (const [, , show] of COLUMNS.slice(1)) row.append(element("td", { className: "number", textContent: show(one) }));
    button.addEventListener("click", () => {
      const open = button.getAttribute("aria-expanded") === "true";
      button.setAttribute("aria-expanded", String(!open));
      if (open) row.nextSibling.remove(); else row.after(lateness(one));
    });
    return row;
  }

  function fill() {
    for (const [column, title, cell, button] of columns) {
      const here = column === state.column;
      cell.setAttribute("aria-sort", here ? (state.down ? "descending" : "ascending") : "none");
      button.textContent = title + (here ? (state.down ? " ↓" : " ↑") : "");
    }
    const wanted = search.value.toLowerCase();
    const found = data.tensors.filter((one) => one.name.toLowerCase().includes(wanted));
    const order = (one, other) => one[state.column] < other[state.column] ? -1 : one[state.column] > other[state.column] ? 1 : 0;
    found.sort((one, other) => state.down ? order(other, one) : order(one, other));
    const shown = state.all ? found : found.slice(0, FEW);
    body.replaceChildren(...shown.map(rowsOf));
    said.textContent = `${shown.length} of ${data.tensors.length} tensors`;
    more.hidden = found.length <= FEW;
    more.textContent = state.all ? `Show ${FEW}` : `Show all ${found.length}`;
  }
  search.addEventListener("input", fill);
  more.addEventListener("click", () => { state.all = !state.all; fill(); });
  fill();
}

if (data.steps.length) {
  timeline(document.getElementById("timeline"));
  tensorTable(document.getElementById("tensor-table"));
}
