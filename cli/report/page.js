/* Draws the page of `yoke report` from the runs that are in it as JSON. */
"use strict";
const { runs, differing } = JSON.parse(document.getElementById("data").textContent);
const hidden = new Set();
let smoothing = 0.6, axis = "step";
const many = 8; /* runs: as many as there are colours */
const colour = (i) => `var(--c${i % 8})`;

function element(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "path", "line", "circle", "text", "rect"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name)
                   : document.createElement(name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  made.append(...children.filter((child) => child !== null));
  return made;
}
const swatch = (i) => element("span", { class: "swatch", style: `background:${colour(i)}` });
const main = document.querySelector("main");
function section(title, ...children) {
  main.append(element("h2", {}, title), ...children);
}

/* ---- numbers ---- */

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);
function number(value, digits) {
  return known(value) ? value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }) : "–";
}
const percent = (value, digits = 1) => known(value) ? number(100 * value, digits) + "\u00a0%" : "–";
function short(value) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  if (size >= 10000) return number(value / 1000, 1) + "k";
  if (size >= 100) return number(value, 0);
  if (size >= 1e-4 || size === 0) return String(+value.toPrecision(4));
  return value.toExponential(2);
}
function duration(seconds) {
  if (!known(seconds)) return "–";
  const s = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s} s`;
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)} min`
                  : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)} h`;
}

/* ---- tables ---- */

function table(head, rows) {
  const cell = (content, kind) => content instanceof Element && content.matches("td, th")
    ? content : element(kind, {}, content);
  return element("div", { class: rows.length > 60 ? "card scroll tall" : "card scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, ...head.map((text) => cell(text, "th")))),
    element("tbody", {}, ...rows.map((row) =>
      element("tr", {}, ...row.map((content, i) => cell(content, i ? "td" : "th")))))));
}
function runName(run, i) {
  const name = element("span", { title: run.folder }, swatch(i), run.name);
  return element("th", {}, name);
}
/* A column of results; the best is emphasised where there are several. */
function column(get, show, better) {
  const values = runs.map(get), compared = values.filter(known);
  const best = better && compared.length > 1 ? Math[better](...compared) : null;
  return values.map((value) => element("td", best !== null && value === best ? { class: "best" } : {}, show(value)));
}
function results() {
  const columns = [
    ["Accuracy", column((run) => run.results.accuracy, (v) => percent(v, 2), "max")],
    ["Highest", column((run) => run.results.best_accuracy, (v) => percent(v, 2), "max")],
    ["Validation loss", column((run) => run.results.val_loss, (v) => number(v, 4), "min")],
    ["Training loss", column((run) => run.results.train_loss, (v) => number(v, 4), "min")],
    ["Images/s", column((run) => run.results.images_per_s, (v) => number(v, v < 100 ? 1 : 0), "max")],
    ["Ranks", column((run) => run.ranks, (v) => number(v, 0))],
    ["Steps", column((run) => run.steps, (v) => number(v, 0))],
    ["Time", column((run) => run.results.seconds, duration)],
  ];
  section("Results", table(["Run", ...columns.map((c) => c[0])],
    runs.map((run, i) => [runName(run, i), ...columns.map((c) => c[1][i])])));
}
/* A column for each run, or a row where there are many. */
function settings(names) {
  const value = (text) => element("td", { class: text?.length > 32 ? "long" : "" }, text ?? "–");
  if (runs.length > many)
    return table(["Run", ...names],
      runs.map((run, i) => [runName(run, i), ...names.map((name) => value(run.settings[name]))]));
  return table(["Option", ...runs.map((run, i) => element("th", {}, swatch(i), run.name))],
    names.map((name) => [name, ...runs.map((run) => value(run.settings[name]))]));
}
function options() {
  const all = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))];
  if (runs.length > 1)
    section("Options that differ", differing.length ? settings(differing)
      : element("div", { class: "card" }, "The runs were started with the same options."));
  return () => section("All options", element("details", {}, element("summary", {}, `${all.length} options`), settings(all)));
}

/* ---- charts ---- */

/* Round numbers across a range. */
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(i * step || 0);
  return found;
}
function smooth(values) {
  let mean = 0, weight = 0;
  return values.map((value) => {
    if (!known(value)) return null;
    mean = smoothing * mean + (1 - smoothing) * value;
    weight = smoothing * weight + (1 - smoothing);
    return mean / weight;
  });
}
function quantile(values, q) {
  const sorted = values.filter(known).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] : 0;
}
/* Of any number of values, more than a call takes as arguments. */
const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const greatest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
/* series: [{ run, x, y, dots, faint, dashed, label }] */
function range(series, chart) {
  const xs = series.flatMap((s) => s.x), ys = series.flatMap((s) => s.y).filter(known);
  let low = chart.zero ? 0 : least(ys), high = chart.high ?? quantile(ys, chart.clip ?? 1);
  if (chart.low !== undefined) low = chart.low;
  const digits = 1e-6 * Math.max(Math.abs(low), Math.abs(high)); /* the last ones that are recorded */
  if (!(high - low > digits)) high = low + (Math.abs(low) || 1);
  const margin = chart.high !== undefined ? 0 : 0.06 * (high - low);
  return { x0: least(xs), x1: greatest(xs), y0: chart.zero ? 0 : low - margin, y1: high + margin };
}
function path(s, toX, toY) {
  let d = "", pen = "M";
  s.y.forEach((y, i) => {
    if (!known(y)) { pen = "M"; return; }
    d += `${pen}${toX(s.x[i]).toFixed(1)} ${toY(y).toFixed(1)}`;
    pen = "L";
  });
  return d;
}
const charts = [];
function drawChart(chart) {
  const series = chart.series().filter((s) => !hidden.has(s.run) && s.y.some(known));
  const width = Math.max(280, chart.holder.clientWidth), height = 230;
  const left = 54, right = 8, top = 8, bottom = 24;
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": chart.title });
  chart.holder.replaceChildren(svg);
  if (!series.length) {
    svg.append(element("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "no values recorded"));
    return;
  }
  const box = range(series, chart);
  if (!(box.x1 > box.x0)) box.x0 -= 1, box.x1 = box.x0 + 2;
  const toX = (x) => left + (x - box.x0) / (box.x1 - box.x0) * (width - left - right);
  const toY = (y) => {
    const inside = Math.min(Math.max(y, box.y0), box.y1);
    return height - bottom - (inside - box.y0) / (box.y1 - box.y0) * (height - top - bottom);
  };
  const show = chart.show ?? short;
  for (const y of ticks(box.y0, box.y1, 4)) {
    svg.append(element("line", { x1: left, x2: width - right, y1: toY(y), y2: toY(y), stroke: "var(--grid)" }));
    svg.append(element("text", { x: left - 8, y: toY(y) + 4, "text-anchor": "end" }, show(y)));
  }
  for (const x of ticks(box.x0, box.x1, Math.min(6, width / 80)))
    svg.append(element("text", { x: Math.min(toX(x), width - 2), y: height - 6,
      "text-anchor": toX(x) > width - 24 ? "end" : "middle" }, axis === "time" ? duration(x) : short(x)));
  for (const s of series) {
    svg.append(element("path", { d: path(s, toX, toY), fill: "none", stroke: colour(s.run),
      "stroke-width": s.faint ? 1 : 1.8, "stroke-opacity": s.faint ? 0.25 : 1,
      "stroke-linejoin": "round", "stroke-dasharray": s.dashed ? "5 4" : "none" }));
    if (s.dots && s.x.length <= 60 && s.x.length * series.length <= 4000)
      s.y.forEach((y, i) => known(y) && svg.append(element("circle",
        { cx: toX(s.x[i]), cy: toY(y), r: 2.6, fill: colour(s.run) })));
  }
  follow(chart, svg, series.filter((s) => !s.faint), { toX, toY, left, right, top, bottom, width, height, box, show });
}
/* Shows the values nearest to the pointer; of many runs, those of the curves that are nearest. */
function follow(chart, svg, series, view) {
  const cursor = element("line", { y1: view.top, y2: view.height - view.bottom, stroke: "var(--faint)", visibility: "hidden" });
  const tip = element("div", { class: "tip", hidden: "" });
  svg.append(cursor);
  chart.holder.append(tip);
  const leave = () => { cursor.setAttribute("visibility", "hidden"); tip.hidden = true; };
  const move = (event) => {
    const bounds = svg.getBoundingClientRect();
    const at = (event.clientX - bounds.left) / bounds.width * view.width;
    const x = view.box.x0 + (at - view.left) / (view.width - view.left - view.right) * (view.box.x1 - view.box.x0);
    if (x < view.box.x0 || x > view.box.x1) return leave();
    tip.replaceChildren(element("div", {}, axis === "time" ? duration(x) : `step ${number(x, 0)}`));
    const y = (event.clientY - bounds.top) / bounds.height * view.height;
    const found = series.map((s) => {
      let near = -1;
      s.x.forEach((value, i) => { if (known(s.y[i]) && (near < 0 || Math.abs(value - x) < Math.abs(s.x[near] - x))) near = i; });
      return { s, y: s.y[near] };
    }).filter((at) => known(at.y));
    const far = (at) => Math.abs(view.toY(at.y) - y);
    const nearest = found.length > 2 * many ? found.sort((a, b) => far(a) - far(b)).slice(0, many) : found;
    for (const { s, y } of nearest)
      tip.append(element("div", {}, swatch(s.run), element("b", {}, view.show(y)), ` ${s.label ?? runs[s.run].name}`));
    if (found.length > nearest.length) tip.append(element("div", {}, `and ${found.length - nearest.length} more`));
    cursor.setAttribute("x1", view.toX(x)), cursor.setAttribute("x2", view.toX(x));
    cursor.setAttribute("visibility", "visible");
    tip.hidden = false;
    const room = chart.holder.clientWidth - tip.offsetWidth, place = view.toX(x) / view.width * bounds.width + 14;
    tip.style.left = `${Math.max(0, place > room ? place - tip.offsetWidth - 28 : place)}px`;
    tip.style.top = "16px";
  };
  svg.addEventListener("pointermove", move);
  svg.addEventListener("pointerleave", leave);
}
function addChart(grid, title, about, series, options = {}) {
  const holder = element("div", { class: "chart" });
  grid.append(element("div", { class: "card chart" }, element("header", {}, element("h3", {}, title), element("span", {}, about)), holder));
  charts.push({ title, holder, series, ...options });
}
const xOf = (points) => axis === "time" ? points.time : points.step;
function curves(values, label) {
  return runs.flatMap((run, i) => {
    const x = xOf(run.points), y = values(run.points);
    return smoothing > 0 && y.length > 2
      ? [{ run: i, x, y, faint: true }, { run: i, x, y: smooth(y), label: label && `${run.name}, ${label}` }]
      : [{ run: i, x, y, label: label && `${run.name}, ${label}` }];
  });
}
function ofEpochs(values, label, dashed) {
  return runs.map((run, i) => ({ run: i, x: xOf(run.epochs), y: values(run.epochs), dots: true, dashed,
    label: label && `${run.name}, ${label}` }));
}
function curvesSection() {
  const controls = element("div", { class: "controls" }), legend = element("div", { class: "legend" });
  if (runs.length > 1)
    runs.forEach((run, i) => {
      const button = element("button", { type: "button", "aria-pressed": "true" }, swatch(i), run.name);
      button.addEventListener("click", () => {
        hidden.has(i) ? hidden.delete(i) : hidden.add(i);
        button.setAttribute("aria-pressed", String(!hidden.has(i)));
        drawAll();
      });
      legend.append(button);
    });
  const slider = element("input", { type: "range", min: 0, max: 0.99, step: 0.01, value: smoothing });
  slider.addEventListener("input", () => { smoothing = +slider.value; drawAll(); });
  const time = element("input", { type: "checkbox" });
  time.addEventListener("change", () => { axis = time.checked ? "time" : "step"; drawAll(); });
  controls.append(legend, element("label", {}, "Smoothing", slider), element("label", {}, time, "Over time"));
  const grid = element("div", { class: "grid" });
  section("Curves", controls, grid);
  addChart(grid, "Training loss", "each step", () => curves((p) => p.loss), { clip: 0.995 });
  addChart(grid, "Validation loss", "each epoch", () => ofEpochs((e) => e.val_loss));
  const averaged = runs.some((run) => run.epochs.ema_accuracy.some(known));
  addChart(grid, "Validation accuracy", averaged ? "each epoch; dashed: averaged weights" : "each epoch", () => [
    ...ofEpochs((e) => e.accuracy), ...ofEpochs((e) => e.ema_accuracy, "averaged weights", true)],
    { show: (v) => percent(v, v > 0 && v < 1 && Math.round(1000 * v) % 10 ? 1 : 0) });
  addChart(grid, "Learning rate", "each step", () => runs.map((run, i) => ({ run: i, x: xOf(run.points), y: run.points.lr })), { zero: true });
  addChart(grid, "Throughput", "images/s", () => curves((p) => p.images_per_s), { zero: true });
  addChart(grid, "Exposed communication", "share of each step", () => curves((p) => p.exposed),
    { zero: true, show: (v) => percent(v, v < 0.1 && v > 0 ? 1 : 0) });
}
function drawAll() { charts.forEach(drawChart); }

/* ---- where the time goes, and scaling ---- */

const parts = [["computing", "compute", "var(--c0)"], ["waiting for data", "data", "var(--c4)"],
  ["waiting for ranks", "waiting", "var(--c2)"], ["exposed communication", "exposed_comm", "var(--c1)"]];
function times() {
  const rows = runs.map((run, i) => [runName(run, i),
    ...parts.map(([, part]) => percent(run.results[part])),
    element("td", { style: "width:40%" }, element("div", { class: "bar", role: "img", "aria-label": "shares of the time" },
      ...parts.map(([name, part, fill]) => element("i", { title: name, style: `background:${fill};width:${100 * (run.results[part] ?? 0)}%` }))))]);
  const key = element("p", { class: "key" }, ...parts.flatMap(([name, , fill]) =>
    [element("span", { class: "swatch", style: `background:${fill}` }), name]));
  const slow = runs.map((run) => ({ run, r: run.results })).filter(({ r }) =>
    known(r.slowest_rank) && r.waited >= 0.05 /* less is chance, and would be 0.0 s */).map(({ run, r }) =>
    element("p", { class: "note" }, `${runs.length > 1 ? run.name + ": rank" : "Rank"} ${r.slowest_rank} was slower in ` +
      `${r.slowest_epochs} of ${run.epochs.step.length} epochs: the other ranks waited ${number(r.waited, 1)} s for it.`));
  section("Where the time goes", table(["Run", "Computing", "Waiting for data", "Waiting for ranks", "Exposed comm", ""], rows), key, ...slow);
}
/* The runs that differ in nothing but ranks and threads, or in the batch with them. */
function scaling() {
  const ignored = ["ranks", "threads", "nproc", "batch-size"];
  if (new Set(runs.map((run) => run.ranks)).size < 2 || differing.some((name) => !ignored.includes(name))) return;
  const order = runs.map((run, i) => ({ run, i })).sort((a, b) => a.run.ranks - b.run.ranks);
  const base = order[0].run, speed = (run) => run.results.images_per_s;
  section("Scaling", table(["Run", "Ranks", "Batch size", "Images/s", "Speed-up", "Efficiency", "Exposed comm"],
    order.map(({ run, i }) => {
      const factor = known(speed(run)) && speed(base) > 0 ? speed(run) / speed(base) : null;
      return [runName(run, i), number(run.ranks, 0), run.settings["batch-size"], number(speed(run), 1),
        known(factor) ? number(factor, 2) + "×" : "–",
        known(factor) ? percent(factor * base.ranks / run.ranks, 0) : "–", percent(run.results.exposed_comm)];
    })), element("p", { class: "note" },
    `Medians over all steps, relative to ${base.ranks} rank${base.ranks > 1 ? "s" : ""}. ` +
    "An efficiency of 100 % needs one more core, or set of cores, for every rank."));
}

/* ---- pictures ---- */

function pictures() {
  runs.forEach((run) => {
    if (!run.mistakes) return;
    const figures = run.mistakes.map((m) => element("figure", {},
      element("img", { src: `data:image/png;base64,${m.png}`, alt: m.truth, loading: "lazy" }),
      element("em", {}, m.guess), " ", element("small", {}, percent(m.confidence, 0)),
      element("br"), `is ${m.truth}`, m.name ? element("small", { class: "file" }, m.name) : null));
    section(runs.length > 1 ? `Misclassified: ${run.name}` : "Misclassified pictures",
      element("div", { class: "card" },
        figures.length ? element("div", { class: "pictures" }, ...figures) : null,
        element("p", { class: "note" }, run.mistakes_note)));
  });
}

results();
const allOptions = options();
curvesSection();
times();
scaling();
pictures();
allOptions();
drawAll();
let waiting = 0;
addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(drawAll); });
