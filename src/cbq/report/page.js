(function () {
  "use strict";
  const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];
  const CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#fee838"];
  const FONT = 13, CHARACTER = 7.4; // pixels: of a line of text, and of a character at the most
  const readers = {};

  const dataOf = (element) => JSON.parse(element.querySelector('script[type="application/json"]').textContent);

  function add(parent, tag, attributes, text) {
    const made = document.createElementNS(parent.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  // A number with the digits that the half-width of its interval leaves, as cbq.page.charts.resolved has it.
  function resolved(value, half) {
    if (value === null) return "-";
    if (!(half > 0)) return short(value);
    const decimals = 1 - Math.floor(Math.log10(half));
    if (decimals > 8 || Math.abs(value) >= 1e9) {
      const digits = decimals + (value ? Math.floor(Math.log10(Math.abs(value))) + 1 : 1);
      return value.toExponential(Math.min(Math.max(digits, 1), 16) - 1);
    }
    if (decimals >= 0) return value.toFixed(decimals);
    const unit = Math.pow(10, -decimals);
    return (Math.round(value / unit) * unit).toFixed(0);
  }

  const short = (value, digits) => String(Number(value.toPrecision(digits || 6)));

  // The digits with which numbers can be told apart, as cbq._arrays.digits_apart has it.
  function apart(values) {
    const low = Math.min(...values), high = Math.max(...values), size = Math.max(Math.abs(low), Math.abs(high));
    return high > low && high - low < size ? Math.min(5 + Math.ceil(Math.log10(size / (high - low))), 16) : 6;
  }

  // Scales and axes

  function range(values, log, zero) {
    const known = values.filter((v) => v !== null && Number.isFinite(v) && (!log || v > 0));
    let low = known.reduce((a, b) => Math.min(a, b), Infinity), high = known.reduce((a, b) => Math.max(a, b), -Infinity);
    if (!known.length) return log ? [1, 10] : [0, 1];
    if (log) return low < high ? [low / 1.2, high * 1.2] : [low / 2, high * 2];
    if (zero) { low = Math.min(low, 0); high = Math.max(high, 0); }
    const margin = 0.04 * (high - low) || 0.5 * Math.abs(low) || 1;
    return [zero && low === 0 ? 0 : low - margin, zero && high === 0 ? 0 : high + margin];
  }

  function scale(ends, log, from, to) {
    const f = log ? Math.log : (v) => v, a = f(ends[0]), b = f(ends[1]);
    return (v) => from + ((f(v) - a) / (b - a)) * (to - from);
  }

  function ticks(ends, log, most) {
    if (log) {
      const found = [], first = Math.ceil(Math.log10(ends[0]) - 1e-9), last = Math.floor(Math.log10(ends[1]) + 1e-9);
      if (last - first >= 1) {
        const step = Math.max(1, Math.ceil((last - first) / most));
        for (let k = first; k <= last; k += step) found.push(Math.pow(10, k));
        return found;
      }
    }
    const least = (ends[1] - ends[0]) / most, power = Math.pow(10, Math.floor(Math.log10(least)));
    const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= least * (1 - 1e-9));
    const found = [];
    const digits = Math.min(apart(ends) + 6, 17);
    for (let k = Math.ceil(ends[0] / step - 1e-9); k <= ends[1] / step + 1e-9; k++) found.push(Number((k * step).toPrecision(digits)));
    return found;
  }

  function tickText(value, digits) {
    const size = Math.abs(value);
    if (value === 0) return "0";
    return (size >= 1e6 && !(digits > 6)) || size < 1e-3 ? Number(value.toPrecision(6)).toExponential() : short(value, digits);
  }

  // The frame of a chart: axes with ticks and labels. Returns the scales of x and y.
  function frame(svg, spec, width, height, xEnds, yEnds) {
    const places = (axis, ends, most) => (axis.ticks ? axis.ticks.map((_, i) => i) : ticks(ends, axis.log, most));
    const name = (axis, v, ends) => (axis.ticks ? fitted(axis.ticks[v], 0.4 * width) : tickText(v, axis.log ? 6 : apart(ends)));
    const yTicks = places(spec.y, yEnds, Math.max(4, height / 55));
    const left = (spec.y.label ? 30 : 12) + CHARACTER * Math.max(...yTicks.map((v) => name(spec.y, v, yEnds).length), 2), bottom = height - 44;
    const x = scale(xEnds, spec.x.log, left, width - 10), y = scale(yEnds, spec.y.log, bottom, 10);
    const axis = add(svg, "g", { class: "axis" });
    for (const value of yTicks) {
      add(axis, "line", { x1: left, x2: width - 10, y1: y(value), y2: y(value) });
      add(axis, "text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, name(spec.y, value, yEnds));
    }
    const longest = Math.max(...places(spec.x, xEnds, width / 90).map((v) => name(spec.x, v, xEnds).length));
    for (const value of places(spec.x, xEnds, longest > 10 ? width / (1.3 * CHARACTER * longest) : Math.max(4, width / 90))) {
      add(axis, "line", { x1: x(value), x2: x(value), y1: bottom, y2: bottom + 5 });
      const text = name(spec.x, value, xEnds), half = (CHARACTER * text.length) / 2; // long ones stay inside
      const anchor = x(value) + half > width ? "end" : x(value) < half ? "start" : "middle";
      add(axis, "text", { x: x(value), y: bottom + 19, "text-anchor": anchor }, text);
    }
    add(axis, "path", { d: `M${left},${bottom}H${width - 10}` });
    add(axis, "text", { x: (left + width - 10) / 2, y: height - 6, "text-anchor": "middle", class: "soft" }, fitted(spec.x.label, width - left));
    add(axis, "text", { transform: `translate(12,${(bottom + 10) / 2}) rotate(-90)`, "text-anchor": "middle", class: "soft" }, fitted(spec.y.label, bottom));
    return { x, y, left, right: width - 10, top: 10, bottom };
  }

  function fitted(text, width) {
    const most = Math.max(4, Math.floor(width / 6.6));
    return text.length <= most ? text : text.slice(0, most - 1) + "\u2026";
  }

  const path = (xs, ys, at) => {
    let drawing = "", pen = "M";
    xs.forEach((x, i) => {
      if (ys[i] === null || !Number.isFinite(at.y(ys[i]))) { pen = "M"; return; }
      drawing += `${pen}${at.x(x).toFixed(2)},${at.y(ys[i]).toFixed(2)}`;
      pen = "L";
    });
    return drawing;
  };

  // Charts. Each function draws into an empty svg of this width and returns a function that marks the place of a reader.

  function drawLines(svg, spec, width, legend) {
    const values = [], xs = [], alone = spec.series.every((each) => each.type === "dots" || each.type === "zone");
    for (const each of spec.series) { // bars of dots may run out of a chart that has more than dots
      for (const key of ["y", "low", "high"]) if (each[key] && (alone || each.type !== "dots" || key === "y")) values.push(...each[key]);
      if (each.x && each.type !== "dots") xs.push(...each.x);
    }
    if (!xs.length) for (const each of spec.series) if (each.x) xs.push(...each.x);
    const xEnds = [Math.min(...xs), Math.max(...xs)];
    const at = frame(svg, spec, width, spec.height, xEnds[0] < xEnds[1] ? xEnds : range(xs, spec.x.log), range(values, spec.y.log, spec.y.zero));
    const inside = clip(svg, at);
    for (const each of spec.series) SERIES[each.type](inside, each, at);
    entries(legend, spec.series);
    return cursor(svg, spec, at);
  }

  let clips = 0;
  function clip(svg, at) {
    const id = `clip${clips++}`, shape = add(add(svg, "defs"), "clipPath", { id });
    add(shape, "rect", { x: at.left - 4, y: at.top - 6, width: at.right - at.left + 8, height: at.bottom - at.top + 6 });
    return add(svg, "g", { "clip-path": `url(#${id})` });
  }

  const SERIES = {
    band(svg, each, at) {
      const back = path(each.x.slice().reverse(), each.low.slice().reverse(), at).replace("M", "L");
      add(svg, "path", { d: path(each.x, each.high, at) + back + "Z", fill: `var(--c${each.colour})`, "fill-opacity": each.pale ? 0.2 : 0.32 });
    },
    line(svg, each, at) {
      add(svg, "path", { d: path(each.x, each.y, at), fill: "none", stroke: `var(--c${each.colour})`, "stroke-width": 2, "stroke-dasharray": each.dashed ? "6 4" : "none" });
    },
    dots(svg, each, at) {
      const colour = `var(--c${each.colour})`, small = each.x.length > 80;
      each.x.forEach((x, i) => {
        if (each.y[i] === null) return;
        if (each.low) add(svg, "line", { x1: at.x(x), x2: at.x(x), y1: at.y(each.low[i]), y2: at.y(each.high[i]), stroke: colour, "stroke-opacity": 0.6 });
        add(svg, "circle", { cx: at.x(x), cy: at.y(each.y[i]), r: small ? 2 : 3.2, fill: colour, "fill-opacity": small ? 0.6 : 1 });
      });
    },
    zone(svg, each, at) {
      const a = Math.max(at.x(each.ends[0]), at.left), b = Math.min(at.x(each.ends[1]), at.right);
      if (b > a) add(svg, "rect", { x: a, y: at.top, width: b - a, height: at.bottom - at.top, fill: "var(--zone)", "fill-opacity": 0.12 });
    },
  };

  function entries(legend, series) {
    const seen = new Set();
    for (const each of series) {
      if (!each.label || seen.has(each.label)) continue;
      seen.add(each.label);
      const item = add(legend, "li"), colour = `var(--c${each.colour || 0})`;
      const svg = item.appendChild(legend.parentNode.querySelector("svg[role]").cloneNode(false));
      for (const name of ["role", "aria-label", "height"]) svg.removeAttribute(name);
      svg.setAttribute("viewBox", "0 0 22 12");
      if (each.type === "line") add(svg, "line", { x1: 0, x2: 22, y1: 6, y2: 6, stroke: colour, "stroke-width": 2, "stroke-dasharray": each.dashed ? "6 4" : "none" });
      else if (each.type === "dots") add(svg, "circle", { cx: 11, cy: 6, r: 3.5, fill: colour });
      else add(svg, "rect", { x: 0, y: 1, width: 22, height: 10, fill: each.type === "zone" ? "var(--zone)" : colour, "fill-opacity": each.type === "zone" ? 0.18 : each.pale ? 0.25 : 0.45 });
      item.appendChild(document.createTextNode(each.label));
    }
  }

  // The mark of the place that a reader shows, along one coordinate; pointing at the chart moves the reader.
  function cursor(svg, spec, at) {
    const reader = readers[spec.reader];
    if (!reader) return () => {};
    const line = add(svg, "line", { class: "cursor", y1: at.top, y2: at.bottom });
    const spot = spec.output === null || spec.output === undefined ? null : add(svg, "circle", { class: "spot", r: 5 });
    const values = reader.axes[spec.axis];
    const point = (event) => {
      const box = svg.getBoundingClientRect(), px = ((event.clientX - box.left) * svg.viewBox.baseVal.width) / box.width;
      if (px >= at.left - 6 && px <= at.right + 6) reader.move(spec.axis, nearest(values, (v) => at.x(v) - px));
    };
    svg.onpointermove = (event) => (event.pointerType === "mouse" || event.pressure > 0) && point(event);
    svg.onpointerdown = point;
    return () => {
      const x = at.x(values[reader.place[spec.axis]]);
      line.setAttribute("x1", x); line.setAttribute("x2", x);
      if (spot) {
        const mean = reader.quantities[spec.output].mean[reader.index()];
        spot.setAttribute("visibility", mean === null ? "hidden" : "visible");
        spot.setAttribute("cx", x); spot.setAttribute("cy", mean === null ? 0 : at.y(mean));
      }
    };
  }

  function nearest(values, distance) {
    let best = 0;
    values.forEach((v, i) => { if (Math.abs(distance(v)) < Math.abs(distance(values[best]))) best = i; });
    return best;
  }

  // Along one coordinate of a reader, through its place. The scale is that of all places, so that it does not jump.
  function drawSlice(svg, spec, width, legend) {
    const reader = readers[spec.reader], q = reader.quantities[spec.output], xs = reader.axes[spec.axis];
    const at = frame(svg, spec, width, spec.height, [xs[0], xs[xs.length - 1]], range([...q.low, ...q.high], false));
    const inside = clip(svg, at), mark = cursor(svg, spec, at);
    entries(legend, [{ type: "line", label: "estimate", colour: 0 }, { type: "band", label: reader.level + " interval", colour: 0, pale: true }]);
    return () => {
      inside.replaceChildren();
      const along = xs.map((_, k) => reader.index(spec.axis, k)), take = (key) => along.map((i) => q[key][i]);
      SERIES.band(inside, { x: xs, low: take("low"), high: take("high"), colour: 0, pale: true }, at);
      SERIES.line(inside, { x: xs, y: take("mean"), colour: 0 }, at);
      mark();
    };
  }

  function drawMap(svg, spec, width, legend) {
    const height = Math.min(380, Math.max(260, 0.8 * width)), flat = spec.values.flat().filter((v) => v !== null);
    const low = Math.min(...flat), high = Math.max(...flat), f = spec.log ? Math.log : (v) => v;
    const share = (v) => (high > low ? (f(v) - f(low)) / (f(high) - f(low)) : 0.5);
    const edges = (v) => [1.5 * v[0] - 0.5 * v[1], ...v.slice(1).map((b, i) => 0.5 * (v[i] + b)), 1.5 * v[v.length - 1] - 0.5 * v[v.length - 2]];
    const ex = edges(spec.xs), ey = edges(spec.ys), colours = spec.palette === "cividis" ? CIVIDIS : VIRIDIS;
    const plain = { ...spec, x: { ...spec.x, log: false }, y: { ...spec.y, log: false } };
    const at = frame(svg, plain, width, height, [ex[0], ex[ex.length - 1]], [ey[0], ey[ey.length - 1]]);
    const inside = clip(svg, at);
    spec.values.forEach((row, i) => row.forEach((v, j) => {
      if (v === null) return;
      add(inside, "rect", { "shape-rendering": "crispEdges", x: at.x(ex[j]), y: at.y(ey[i + 1]), width: at.x(ex[j + 1]) - at.x(ex[j]) + 0.4, height: at.y(ey[i]) - at.y(ey[i + 1]) + 0.4, fill: mixed(colours, share(v)) });
    }));
    for (const [x, y] of spec.dots || []) add(inside, "circle", { cx: at.x(x), cy: at.y(y), r: 2.6, fill: "#fff", stroke: "#222" });
    const item = add(legend, "li");
    item.textContent = `${spec.label}: `;
    const bar = item.appendChild(svg.cloneNode(false));
    for (const name of ["role", "aria-label", "height"]) bar.removeAttribute(name);
    bar.setAttribute("viewBox", "0 0 90 12"); bar.style.width = "90px";
    for (let k = 0; k < 30; k++) add(bar, "rect", { x: 3 * k, y: 0, width: 3.3, height: 12, fill: mixed(colours, k / 29) });
    item.insertBefore(document.createTextNode(tickText(Number(low.toPrecision(3))) + " "), bar);
    item.appendChild(document.createTextNode(" " + tickText(Number(high.toPrecision(3))) + (spec.log ? " (logarithmic)" : "")));
    const reader = readers[spec.reader];
    if (!reader) return () => {};
    const ring = add(svg, "circle", { r: 7, fill: "none", stroke: "#fff", "stroke-width": 4 }), core = add(svg, "circle", { r: 7, fill: "none", stroke: "#111", "stroke-width": 2 });
    const point = (event) => {
      const box = svg.getBoundingClientRect(), unit = svg.viewBox.baseVal.width / box.width;
      const px = (event.clientX - box.left) * unit, py = (event.clientY - box.top) * unit;
      if (px < at.left || px > at.right || py > at.bottom) return;
      reader.move(0, nearest(reader.axes[0], (v) => at.x(v) - px), false);
      reader.move(1, nearest(reader.axes[1], (v) => at.y(v) - py));
    };
    svg.onpointermove = (event) => event.pointerType === "mouse" && point(event);
    svg.onpointerdown = point;
    return () => [ring, core].forEach((each) => {
      each.setAttribute("cx", at.x(reader.axes[0][reader.place[0]]));
      each.setAttribute("cy", at.y(reader.axes[1][reader.place[1]]));
    });
  }

  function mixed(colours, share) {
    const at = Math.min(Math.max(share, 0), 1) * (colours.length - 1), i = Math.min(Math.floor(at), colours.length - 2);
    const part = (k) => Math.round(parseInt(colours[i].slice(k, k + 2), 16) * (1 - at + i) + parseInt(colours[i + 1].slice(k, k + 2), 16) * (at - i));
    return `rgb(${part(1)},${part(3)},${part(5)})`;
  }

  function drawBars(svg, spec, width, legend) {
    const row = 38, height = row * spec.rows.length + 52, bottom = height - 46;
    const ends = range([0, ...spec.rows.map((r) => r.high), ...(spec.rule ? [spec.rule.value] : [])], false, true);
    const x = scale(ends, false, 8, width - 16), axis = add(svg, "g", { class: "axis" });
    for (const value of ticks(ends, false, Math.max(4, width / 90))) {
      add(axis, "line", { x1: x(value), x2: x(value), y1: 0, y2: bottom });
      add(axis, "text", { x: x(value), y: bottom + 17, "text-anchor": value === 0 ? "start" : "middle" }, tickText(value));
    }
    add(axis, "text", { x: width / 2, y: height - 6, "text-anchor": "middle", class: "soft" }, fitted(spec.x.label, width));
    spec.rows.forEach((each, i) => {
      const y = row * i + 18;
      add(svg, "rect", { x: x(0), y, width: Math.max(x(each.value) - x(0), 1), height: 14, fill: "var(--c0)" });
      add(svg, "line", { x1: x(each.low), x2: x(each.high), y1: y + 7, y2: y + 7, stroke: "var(--ink)", "stroke-width": 2 });
      for (const end of [each.low, each.high]) add(svg, "line", { x1: x(end), x2: x(end), y1: y + 3, y2: y + 11, stroke: "var(--ink)", "stroke-width": 2 });
      const text = add(svg, "text", { x: x(0), y: y - 4 }, fitted(each.label, width - 60));
      add(text, "title", {}, each.label);
    });
    if (spec.rule) {
      add(svg, "line", { x1: x(spec.rule.value), x2: x(spec.rule.value), y1: 0, y2: bottom, stroke: "var(--c1)", "stroke-width": 2, "stroke-dasharray": "6 4" });
      entries(legend, [{ type: "line", label: spec.rule.label, colour: 1, dashed: true }]);
    }
    return () => {};
  }

  const KINDS = { lines: drawLines, slice: drawSlice, map: drawMap, bars: drawBars };
  const HEIGHTS = { map: (spec, width) => Math.min(380, Math.max(260, 0.8 * width)), bars: (spec) => 38 * spec.rows.length + 52 };

  // Readers

  function makeReader(element) {
    const data = dataOf(element), inputs = [...element.querySelectorAll("input")], outputs = [...element.querySelectorAll("output")];
    const sizes = data.axes.map((axis) => axis.length), marked = new Set(data.marked || []), listeners = [];
    const reader = { axes: data.axes, quantities: data.quantities, level: data.level, place: data.middle.slice() };
    const starts = sizes.map((_, j) => sizes.slice(0, j).reduce((a, b) => a + b, 0));
    let moving = 0; // the coordinate that is off its middle, where the grid is not full

    reader.index = function (axis, k) {
      const place = reader.place.slice();
      if (axis !== undefined) place[axis] = k;
      if (data.full) return place.reduce((sum, each, j) => sum * sizes[j] + each, 0);
      const j = axis === undefined ? moving : axis;
      return starts[j] + place[j];
    };
    reader.move = function (axis, k, tell) {
      if (!data.full && axis !== moving) { reader.place = data.middle.slice(); moving = axis; }
      reader.place[axis] = k;
      if (tell !== false) reader.tell();
    };
    reader.tell = function () {
      inputs.forEach((input, j) => {
        const text = short(data.axes[j][reader.place[j]], apart(data.axes[j]));
        input.value = reader.place[j];
        input.setAttribute("aria-valuetext", text);
        outputs[j].textContent = text;
      });
      const i = reader.index(), box = element.querySelector(".readings");
      box.replaceChildren();
      for (const q of data.quantities) {
        const half = q.low[i] === null ? 0 : 0.5 * (q.high[i] - q.low[i]), line = add(box, "p");
        line.appendChild(document.createTextNode(`${q.name}: `));
        add(line, "strong", {}, resolved(q.mean[i], half));
        if (q.low[i] !== null) line.appendChild(document.createTextNode(`, ${data.level} interval ${resolved(q.low[i], half)} to ${resolved(q.high[i], half)}`));
      }
      if (marked.has(i)) add(box, "p", { class: "notice warning" }, data.remark);
      listeners.forEach((each) => each());
    };
    reader.listen = (listener) => listeners.push(listener);
    inputs.forEach((input, j) => input.addEventListener("input", () => reader.move(j, Number(input.value))));
    return reader;
  }

  function makeChart(element) {
    const spec = dataOf(element), svg = element.querySelector("svg[role]"), legend = element.querySelector(".legend");
    let mark = () => {}, drawn = 0;
    const draw = () => {
      const width = Math.round(element.clientWidth);
      if (!width || width === drawn) return;
      drawn = width;
      svg.replaceChildren(); legend.replaceChildren();
      const height = HEIGHTS[spec.kind] ? HEIGHTS[spec.kind](spec, width) : spec.height;
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      mark = KINDS[spec.kind](svg, spec, width, legend);
      mark();
    };
    if (readers[spec.reader]) readers[spec.reader].listen(() => mark());
    draw();
    new ResizeObserver(draw).observe(element);
  }

  document.querySelectorAll(".reader").forEach((each) => (readers[each.id] = makeReader(each)));
  document.querySelectorAll(".chart").forEach(makeChart);
  Object.values(readers).forEach((each) => each.tell());
})();
