// Draws the charts of a report with uPlot: each chart of #chart-data into the element with its data-chart.
// Hover or arrow keys show values, dragging zooms; buttons and the slider change only how a chart is drawn.
(() => {
"use strict";
const charts = JSON.parse(document.getElementById("chart-data").textContent);
const phrase = document.getElementById("chart-words").dataset;
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const plots = [];
let smoothing = 0;

const element = (tag, attributes = {}, text = "") => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
};
const number = value => {
  if (value == null || !isFinite(value)) return "";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e7) ? value.toExponential(3).replace(/\.?0*e\+?/, "e")
    : String(+value.toPrecision(size >= 1e4 ? 8 : 5));
};
const lineColour = (line, index) => colour(line.is_baseline ? "fig-ink" : `fig-line-${index % 8 + 1}`);
const isPositive = panel => panel.lines.every(line => line.y.every(value => value == null || value > 0));

// Exponential moving average without the bias of its first values; gaps stay gaps.
const smoothed = values => {
  let sum = 0, weight = 0;
  return values.map(value => {
    if (value == null) return value;
    sum = sum * smoothing + value * (1 - smoothing);
    weight = weight * smoothing + 1 - smoothing;
    return sum / weight;
  });
};

// --- what uPlot is given ------------------------------------------------------------------------------------

// Lines on a common x axis. Each drawn column: values at x, how it is drawn, the band it closes.
const columnsOf = (lines, overlaid, options) => {
  const named = lines.length <= 8 ? lines : [...lines].sort((a, b) =>
    (b.is_baseline || 0) - (a.is_baseline || 0) || (options.goal === "max" ? 1 : -1) * (b.y[b.y.length - 1] - a.y[a.y.length - 1])).slice(0, 5);
  const tables = [], series = [{}], bands = [];
  const add = (x, y, look) => { tables.push([x, y]); series.push(look); return series.length - 1; };
  const fit = values => options.scale === "log" ? values.map(value => value > 0 ? value : null) : values;
  lines.forEach((line, index) => {
    const isNamed = named.includes(line), stroke = () => isNamed ? lineColour(line, index) : colour("fig-ink"), faint = { stroke, alpha: .35, width: 1, points: { show: false, stroke: "transparent", fill: "transparent" }, isHidden: true };
    const scale = overlaid.includes(line) ? "other" : "y", dash = line.is_baseline ? [6, 4] : index >= 8 ? [2, 3] : undefined;
    for (const [x, y] of line.runs || []) add(x, fit(y), { ...faint, scale, owner: line.label });
    if (line.low) {
      const ends = [line.high, line.low].map(end => add(line.x, fit(end), { ...faint, alpha: 1, stroke: "transparent", scale, owner: line.label }));
      bands.push({ series: ends, fill: () => stroke() + (isNamed ? "2e" : "0a") });
    }
    const isSmooth = smoothing > 0 && options.isSmoothable;
    if (isSmooth) add(line.x, fit(line.y), { ...faint, scale, owner: line.label });
    add(line.x, isSmooth ? smoothed(fit(line.y)) : fit(line.y), {
      label: line.label, scale, stroke, dash, width: isNamed ? 1.8 : 1, alpha: isNamed ? 1 : .4,
      points: { show: line.x.length <= 40, size: 6 }, value: (_, value) => number(value) || "–",
    });
  });
  return { data: uPlot.join(tables), series, bands };
};

// Powers of ten, so few that their labels fit; 1, 2, 5 within a few decades. With a threshold: to both sides of 0.
const decades = (threshold = 0) => (_, __, min, max) => {
  if (threshold) {
    const top = Math.ceil(Math.log10(Math.max(Math.abs(min), Math.abs(max)) / threshold)), by = Math.max(1, Math.ceil(top / 3));
    const powers = Array.from({ length: Math.floor(top / by) }, (_, index) => threshold * 10 ** (by * (index + 1)));
    return [...powers.map(power => -power).reverse(), 0, ...powers].filter(value => value >= min && value <= max);
  }
  const low = Math.floor(Math.log10(min)), high = Math.ceil(Math.log10(max)), by = Math.ceil((high - low) / 6);
  const steps = high - low <= 3 ? [1, 2, 5] : [1], found = [];
  for (let power = low; power <= high; power += by) found.push(...steps.map(step => step * 10 ** power));
  return found.filter(value => value >= min && value <= max);
};

const axes = (chart, panel, options, hasOther) => {
  const common = { stroke: () => colour("fig-ink"), grid: { stroke: () => colour("fig-grid"), width: 1 }, ticks: { show: false },
    font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 20 };
  const values = (_, splits) => splits.map(value => value == null ? "" : number(value));
  const size = (_, texts) => Math.min(90, 14 + 7 * Math.max(0, ...(texts || []).map(text => text.length)));
  const x = { ...common, grid: { show: false }, label: chart.x, labelSize: 18, values, size: 34 };
  if (chart.x === "step" || chart.x === "row number") x.incrs = Array.from({ length: 30 }, (_, index) => [1, 2, 5][index % 3] * 10 ** Math.floor(index / 3));
  if (options.scale) Object.assign(common, { splits: decades(options.scale === "log" ? 0 : options.threshold), filter: (_, splits) => splits, incrs: (_, __, min, max) => [max - min] });
  const y = { ...common, values, size, label: panel.y || chart.y || undefined };
  return hasOther ? [x, y, { ...y, scale: "other", side: 1, grid: { show: false }, label: undefined, splits: undefined, filter: undefined, incrs: undefined }] : [x, y];
};

// Stretches without a finite number, and where later attempts take over.
const drawRemarks = lines => plot => {
  const { ctx, bbox } = plot, ratio = devicePixelRatio, at = x => plot.valToPos(x, "x", true);
  const write = (text, x, ink) => { ctx.fillStyle = ink; ctx.font = `${11 * ratio}px system-ui, sans-serif`; ctx.textAlign = "left"; ctx.fillText(text, x + 3 * ratio, bbox.top + 11 * ratio); };
  ctx.save();
  ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
  for (const line of lines) {
    line.y.forEach((value, index) => {
      if (value != null) return;
      const end = index + 1 < line.x.length ? line.x[index + 1] : line.x[index], from = at(line.x[index]);
      ctx.globalAlpha = .22; ctx.fillStyle = colour("bad");
      ctx.fillRect(from, bbox.top, Math.max(2 * ratio, at(end) - from), bbox.height);
      ctx.globalAlpha = 1;
      if (index === 0 || line.y[index - 1] != null) write("NaN", from, colour("bad"));
    });
    (line.attempts || []).forEach((attempt, index) => {
      if (index === 0 || attempt === line.attempts[index - 1]) return;
      const from = at(line.x[index]);
      ctx.strokeStyle = colour("fig-attempt"); ctx.lineWidth = ratio; ctx.setLineDash([4 * ratio, 3 * ratio]);
      ctx.beginPath(); ctx.moveTo(from, bbox.top); ctx.lineTo(from, bbox.top + bbox.height); ctx.stroke();
      write(`${phrase.attempt} ${attempt}`, from, colour("fig-attempt"));
    });
  }
  ctx.restore();
};

const scaleOf = scale => scale === "log" ? { distr: 3 } : scale === "asinh" ? { distr: 4 } : {};

const linesOptions = (chart, panel, options, overlaid) => {
  const lines = [...panel.lines, ...overlaid];
  const { data, series, bands } = columnsOf(lines, overlaid, options);
  const scales = { x: { time: false }, y: scaleOf(options.scale), other: {} };
  if (options.scale === "asinh") scales.y.asinh = options.threshold;
  if (chart.kind === "validation" && !options.scale) scales.y.range = (_, low, high) => low >= 0 && high <= 1 ? [-.03, 1.03] : uPlot.rangeNum(low, high, .1, true);
  return { data, options: { series, bands, scales, axes: axes(chart, panel, options, overlaid.length > 0), hooks: { draw: [drawRemarks(lines)] },
    cursor: { y: false, sync: { key: `x-${chart.x}`, setSeries: false }, drag: { x: true, y: false }, points: { size: 7 } } } };
};

// Points with their intervals: the levels of a key, or quality against time.
const marksOptions = (chart, panel) => {
  const isLevels = chart.kind === "levels", marks = panel.marks.map(mark => ({ ...mark, at: mark.x || 0 })).sort((a, b) => a.at - b.at);
  const x = marks.map(mark => mark.at), ends = marks.flatMap(mark => [mark.y, mark.low ?? mark.y, mark.high ?? mark.y, ...(mark.runs || [])]);
  const drawMarks = plot => {
    const { ctx } = plot, ratio = devicePixelRatio, px = value => plot.valToPos(value, "x", true), py = value => plot.valToPos(value, "y", true);
    ctx.save();
    ctx.textAlign = "left"; ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    const taken = [];
    for (const mark of marks) {
      const ink = colour(mark.is_special ? "fig-line-2" : "fig-line-1"), left = px(mark.at);
      ctx.strokeStyle = ctx.fillStyle = ink;
      if (mark.low != null && mark.high != null) { ctx.globalAlpha = .4; ctx.lineWidth = 3 * ratio; ctx.beginPath(); ctx.moveTo(left, py(mark.low)); ctx.lineTo(left, py(mark.high)); ctx.stroke(); }
      if (isLevels && mark.is_special) {
        const { left: start, width } = plot.bbox;
        ctx.lineWidth = ratio; ctx.setLineDash([5 * ratio, 3 * ratio]); ctx.beginPath(); ctx.moveTo(start, py(mark.y)); ctx.lineTo(start + width, py(mark.y)); ctx.stroke(); ctx.setLineDash([]);
      }
      ctx.globalAlpha = .6; ctx.fillStyle = colour("fig-ink");
      for (const run of mark.runs || []) { ctx.beginPath(); ctx.arc(left, py(run), 2 * ratio, 0, 7); ctx.fill(); }
      ctx.globalAlpha = 1; ctx.fillStyle = ink;
      ctx.beginPath(); ctx.arc(left, py(mark.y), 4.5 * ratio, 0, 7); mark.n === 1 ? ctx.stroke() : ctx.fill();
      if (!isLevels && mark.is_labelled) {
        const text = `${mark.label} (n = ${mark.n})`, width = ctx.measureText(text).width, top = py(mark.y) - 8 * ratio;
        const start = left + width + 8 * ratio > plot.bbox.left + plot.bbox.width ? left - width - 7 * ratio : left + 7 * ratio;
        if (taken.some(([a, b, c]) => start < b && start + width > a && Math.abs(top - c) < 13 * ratio)) continue;
        taken.push([start, start + width, top]);
        ctx.fillStyle = colour("fig-ink"); ctx.fillText(text, start, top);
      }
    }
    ctx.restore();
  };
  const [xAxis, yAxis] = axes(chart, panel, {}, false);
  if (isLevels) Object.assign(xAxis, { splits: () => x, values: () => marks.map(mark => mark.label), incrs: undefined, rotate: marks.length > 6 ? -35 : 0, size: marks.length > 6 ? 60 : 34 });
  const margin = (low, high, share) => (high - low) * share || Math.abs(high) * .05 || .5;
  const within = (values, share) => { const low = Math.min(...values), high = Math.max(...values), more = margin(low, high, share); return [low - more, high + more]; };
  const front = marks.map(mark => mark.is_special ? mark.y : undefined), isFront = !isLevels && front.filter(y => y != null).length > 1;
  const name = index => index == null ? "–" : marks[index].label;
  return { data: isFront ? [x, marks.map(mark => mark.y), front] : [x, marks.map(mark => mark.y)], options: {
    series: [{ label: phrase.point, value: (_, value, __, index) => name(index) },
      { label: chart.y || phrase.value, stroke: () => colour("fig-line-1"), width: isLevels ? 1 : 0, points: { show: false },
        value: (_, value, __, index) => index == null ? "–" : number(value) + (marks[index].low != null ? ` [${number(marks[index].low)}, ${number(marks[index].high)}]` : "") },
      ...(isFront ? [{ stroke: () => colour("fig-line-2"), width: 1.2, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false }, spanGaps: true, isHidden: true }] : [])],
    scales: { x: { time: false, range: () => within(x, .12) }, y: { range: () => within(ends, .12) } }, axes: [xAxis, yAxis],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 11 } }, hooks: { draw: [drawMarks] } } };
};

// --- one panel: the plot, its keys and buttons --------------------------------------------------------------

class Plot {
  constructor(chart, panel, host, tools) {
    Object.assign(this, { chart, panel, scale: panel.scale || "", overlaid: null });
    if (panel.title) host.append(element("p", { class: "panel-title" }, panel.title));
    const about = [chart.title, panel.title, phrase.keys].filter(Boolean).join(". ");
    this.box = element("div", { class: "plot", tabindex: "0", role: "application", "aria-roledescription": phrase.role, "aria-label": about });
    this.said = element("p", { class: "sr-only", "aria-live": "polite" });
    host.append(this.box, this.said);
    if (tools) this.addTools(tools);
    this.box.addEventListener("keydown", event => this.onKey(event));
    this.draw();
    new ResizeObserver(() => this.plot.width !== this.width() && this.plot.setSize({ width: this.width(), height: this.height() })).observe(this.box);
  }

  // The values of the legend while no place is chosen: those at the end.
  showLast() { if (this.plot && this.plot.cursor.idx == null) this.plot.setLegend({ idx: this.plot.data[0].length - 1 }); }

  get isLines() { return Boolean(this.panel.lines && this.panel.lines.length); }
  width() { return Math.max(240, this.box.clientWidth); }
  height() { return this.chart.kind === "metric" ? 210 : 280; }

  draw(isReset = false) {
    const isSmoothable = ["metric", "curves"].includes(this.chart.kind);
    const sizes = this.isLines ? this.panel.lines.flatMap(line => line.y).filter(Boolean).map(Math.abs).sort((a, b) => a - b) : [];
    const options = { scale: this.scale, goal: this.chart.goal, threshold: sizes[sizes.length >> 1] || 1, isSmoothable };
    const overlaid = this.overlaid ? [this.overlaid] : [];
    const made = this.isLines ? linesOptions(this.chart, this.panel, options, overlaid) : marksOptions(this.chart, this.panel);
    if (this.isLines) Object.assign(made.options.series[0], { label: this.chart.x || "x", value: (_, value) => number(value) || "–" });
    made.options.hooks.setCursor = [() => this.showLast()];
    const zoomed = isReset || !this.plot ? null : { ...this.plot.scales.x };
    if (this.plot) this.plot.destroy();
    this.plot = new uPlot({ width: this.width(), height: this.height(), legend: { live: true }, ...made.options }, made.data, this.box);
    if (zoomed && this.isLines) this.plot.setScale("x", { min: zoomed.min, max: zoomed.max });
    this.showLast();
    this.plot.root.querySelectorAll(".u-legend .u-series").forEach((row, index) => {
      const series = this.plot.series[index];
      if (series.isHidden) return row.remove();
      if (index === 0 || !this.isLines) return;
      const button = row.querySelector("th");
      button.setAttribute("tabindex", "0"); button.setAttribute("role", "button"); button.setAttribute("aria-pressed", "true");
      const toggled = () => {
        button.setAttribute("aria-pressed", String(series.show));
        this.plot.series.forEach((other, place) => other.owner === series.label && this.plot.setSeries(place, { show: series.show }));
      };
      button.addEventListener("click", toggled);
      button.addEventListener("keydown", event => { if ([" ", "Enter"].includes(event.key)) { event.preventDefault(); event.stopPropagation(); button.click(); } });
    });
  }

  addTools(tools) {
    const add = (text, label, act) => { const button = element("button", { type: "button", "aria-label": `${label}: ${this.chart.title}`, title: label }, text); button.addEventListener("click", () => act(button)); tools.append(button); return button; };
    if (this.isLines) {
      this.logButton = add(phrase.log, phrase.logAbout, () => this.toggleLog());
      this.logButton.setAttribute("aria-pressed", String(Boolean(this.scale)));
      add(phrase.reset, phrase.resetAbout, () => this.siblings().forEach(plot => plot.draw(true)));
    }
    add("PNG", phrase.pngAbout, () => this.save());
    const others = charts.filter(other => other !== this.chart && other.kind === "metric" && other.x === this.chart.x && other.panels.length === 1);
    if (this.chart.kind !== "metric" || !others.length) return;
    const select = element("select", { "aria-label": `${phrase.overlay}: ${this.chart.title}`, title: phrase.overlay });
    select.append(element("option", { value: "" }, phrase.overlayShort), ...others.map((other, index) => element("option", { value: index }, other.title)));
    select.addEventListener("change", () => {
      const other = others[select.value];
      this.overlaid = other ? { ...other.panels[0].lines[0], attempts: [], label: `${other.title} (${phrase.right})` } : null;
      this.draw();
    });
    tools.append(select);
  }

  siblings() { return plots.filter(plot => plot.chart === this.chart); }

  toggleLog() {
    const isLinear = Boolean(this.scale);
    for (const plot of this.siblings()) {
      plot.scale = isLinear ? "" : isPositive(plot.panel) ? "log" : "asinh";
      if (plot.logButton) plot.logButton.setAttribute("aria-pressed", String(!isLinear));
      plot.draw();
    }
  }

  save() {
    const panels = this.siblings().map(plot => plot.plot.ctx.canvas), to = element("canvas");
    to.width = Math.max(...panels.map(panel => panel.width));
    to.height = panels.reduce((sum, panel) => sum + panel.height, 0);
    const ctx = to.getContext("2d");
    ctx.fillStyle = colour("card"); ctx.fillRect(0, 0, to.width, to.height);
    panels.reduce((top, panel) => { ctx.drawImage(panel, 0, top); return top + panel.height; }, 0);
    element("a", { href: to.toDataURL("image/png"), download: `${this.chart.name}.png` }).click();
  }

  zoom(factor) {
    const { min, max } = this.plot.scales.x, index = this.plot.cursor.idx;
    const middle = index == null ? (min + max) / 2 : this.plot.data[0][index], ends = this.plot.data[0];
    const low = Math.max(ends[0], middle - (middle - min) * factor), high = Math.min(ends[ends.length - 1], middle + (max - middle) * factor);
    if (high > low) this.plot.setScale("x", { min: low, max: high });
  }

  moveTo(index) {
    const x = this.plot.data[0], place = Math.max(0, Math.min(x.length - 1, index)), { min, max } = this.plot.scales.x;
    if (x[place] < min || x[place] > max) this.plot.setScale("x", { min: Math.min(min, x[place]), max: Math.max(max, x[place]) });
    this.plot.setCursor({ left: this.plot.valToPos(x[place], "x"), top: this.plot.over.clientHeight / 2 });
    this.said.textContent = this.plot.series.flatMap((series, at) => series.isHidden || !series.show ? [] :
      [`${series.label}: ${series.value(this.plot, this.plot.data[at][place], at, place)}`]).join(", ");
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.box) return;
    const at = this.plot.cursor.idx, last = this.plot.data[0].length - 1, by = event.shiftKey ? Math.ceil(last / 20) : 1;
    const keys = {
      ArrowRight: () => this.moveTo(at == null ? 0 : at + by), ArrowLeft: () => this.moveTo(at == null ? last : at - by),
      Home: () => this.moveTo(0), End: () => this.moveTo(last),
      "+": () => this.isLines && this.zoom(.5), "-": () => this.isLines && this.zoom(2),
      0: () => this.draw(true), Escape: () => this.draw(true), l: () => this.isLines && this.toggleLog(),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }
}

// --- the page -----------------------------------------------------------------------------------------------

const drawAll = () => plots.forEach(plot => plot.draw());
for (const chart of charts) {
  const host = document.querySelector(`[data-chart="${chart.name}"]`);
  if (!host) continue;
  const tools = host.parentElement.querySelector(".tools");
  try {
    chart.panels.forEach((panel, index) => {
      const place = host.appendChild(element("div"));
      plots.push(new Plot(chart, panel, place, index === 0 && tools));
    });
  } catch (error) {
    console.error(error);
    host.replaceChildren(element("img", { src: `figures/${chart.name}.svg`, alt: chart.title }));
  }
}
const slider = document.getElementById("smoothing");
if (slider) {
  slider.closest("[hidden]").hidden = false;
  slider.addEventListener("input", () => { smoothing = +slider.value; slider.nextElementSibling.textContent = slider.value; drawAll(); });
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
