(function () {
  "use strict";
  const PALETTES = {
    viridis: ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"],
    cividis: ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#fee838"],
    PuOr: ["#7f3b08", "#be630a", "#ef9e3c", "#fed7a2", "#f6f6f7", "#cecde4", "#988dbe", "#5d3790", "#2d004b"],
  };
  const DASHES = { solid: "none", dashed: "6 4", dotted: "2 3" };
  const SHAPES = { // of radius 1; others are circles
    s: "M-1,-1H1V1H-1Z", "^": "M0,-1.2L1.1,.9H-1.1Z", v: "M0,1.2L1.1,-.9H-1.1Z", D: "M0,-1.3L1.3,0L0,1.3L-1.3,0Z",
    P: "M-.4,-1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z", X: "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z",
    x: "M-1,-1L1,1M-1,1L1,-1", "+": "M-1.2,0H1.2M0,-1.2V1.2",
  };
  const CHARACTER = 7.4, ROW = 38; // pixels: of a character at the most, and of a bar with its name
  const readers = {};

  const dataOf = (element) => JSON.parse(element.querySelector('script[type="application/json"]').textContent);
  const colourOf = (mark) => `var(--c${mark.colour})`;

  function add(parent, tag, attributes, text) {
    const made = document.createElementNS(parent.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  // Axes. Their ends come with the data; the number of ticks depends on the width.

  const short = (value, digits) => String(Number(value.toPrecision(digits || 6)));

  function apart(ends) { // the digits with which ticks can be told apart
    const size = Math.max(Math.abs(ends[0]), Math.abs(ends[1])), span = ends[1] - ends[0];
    return span > 0 && span < size ? Math.min(5 + Math.ceil(Math.log10(size / span)), 16) : 6;
  }

  function scale(ends, log, from, to) {
    const f = log ? Math.log : (v) => v, a = f(ends[0]), b = f(ends[1]);
    return (v) => from + ((f(v) - a) / (b - a)) * (to - from);
  }

  function ticks(axis, most) {
    const [low, high] = axis.ends;
    if (axis.names.length) return axis.names.map((_, i) => i);
    if (axis.ticks && axis.ticks.length <= most) return axis.ticks;
    const found = [];
    if (axis.log) {
      const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
      for (let k = first; k <= last; k += Math.max(1, Math.ceil((last - first) / most))) found.push(Math.pow(10, k));
      if (found.length > 1) return found;
      found.length = 0;
    }
    const least = (high - low) / most, power = Math.pow(10, Math.floor(Math.log10(least)));
    const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= least * (1 - 1e-9));
    const digits = Math.min(apart(axis.ends) + 6, 17);
    for (let k = Math.ceil(low / step - 1e-9); k <= high / step + 1e-9; k++) found.push(Number((k * step).toPrecision(digits)));
    return found;
  }

  function tickText(value, digits) {
    const size = Math.abs(value);
    if (value === 0) return "0";
    if (size >= 1e6 && size < 1e12 && !(digits > 6)) return size < 1e9 ? short(value / 1e6) + "M" : short(value / 1e9) + "B";
    return (size >= 1e6 && !(digits > 6)) || size < 1e-3 ? Number(value.toPrecision(6)).toExponential() : short(value, digits);
  }

  function fitted(text, width) {
    const most = Math.max(4, Math.floor(width / 6.6));
    return text.length <= most ? text : text.slice(0, most - 1) + "\u2026";
  }

  // The frame of a chart: axes with ticks and labels. Returns the scales of x and y. Bars have their names above them.
  function frame(svg, spec, width, height) {
    const bars = spec.marks.some((mark) => mark.type === "bars"), both = spec.x.names.length > 0;
    const name = (axis, v) => (!axis.names.length ? tickText(v, axis.log ? 6 : apart(axis.ends)) : both && axis === spec.x ? String(v + 1) : (both ? `${v + 1}. ` : "") + fitted(axis.names[v], 0.4 * width));
    const yTicks = bars ? [] : ticks(spec.y, Math.max(4, height / 55));
    const left = bars ? 8 : (spec.y.label ? 30 : 12) + CHARACTER * Math.max(...yTicks.map((v) => name(spec.y, v).length), 2);
    const right = width - (bars ? 16 : 10), top = bars ? 0 : 10, bottom = height - 46;
    const x = scale(spec.x.ends, spec.x.log, left, right), flipped = spec.y.names.length > 0;
    const y = bars ? (i) => ROW * i + 25 : scale(spec.y.ends, spec.y.log, flipped ? top : bottom, flipped ? bottom : top);
    const axis = add(svg, "g", { class: "axis" });
    for (const value of yTicks) {
      add(axis, "line", { x1: left, x2: right, y1: y(value), y2: y(value) });
      add(axis, "text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, name(spec.y, value));
    }
    const longest = Math.max(...ticks(spec.x, width / 90).map((v) => name(spec.x, v).length));
    for (const value of ticks(spec.x, longest > 10 ? width / (1.3 * CHARACTER * longest) : Math.max(4, width / 90))) {
      add(axis, "line", { x1: x(value), x2: x(value), y1: bars ? 0 : bottom, y2: bars ? bottom : bottom + 5 });
      const text = name(spec.x, value), half = (CHARACTER * text.length) / 2; // long ones stay inside
      const anchor = x(value) + half > width ? "end" : x(value) < half ? "start" : "middle";
      add(axis, "text", { x: x(value), y: bottom + 19, "text-anchor": anchor }, text);
    }
    if (!bars) add(axis, "path", { d: `M${left},${bottom}H${right}` });
    add(axis, "text", { x: (left + right) / 2, y: height - 6, "text-anchor": "middle", class: "soft" }, fitted(spec.x.label, right - left));
    if (!bars) add(axis, "text", { transform: `translate(12,${(bottom + 10) / 2}) rotate(-90)`, "text-anchor": "middle", class: "soft" }, fitted(spec.y.label, bottom));
    return { x, y, left, right, top, bottom, ends: spec.x.ends, names: spec.y.names };
  }

  // Marks: each function draws one into an svg, given the frame.

  const path = (xs, ys, at) => {
    let drawing = "", pen = "M";
    xs.forEach((x, i) => {
      if (ys[i] === null || !Number.isFinite(at.y(ys[i]))) { pen = "M"; return; }
      drawing += `${pen}${at.x(x).toFixed(2)},${at.y(ys[i]).toFixed(2)}`;
      pen = "L";
    });
    return drawing;
  };

  function symbol(svg, mark, x, y, radius) {
    const white = mark.fill === "white", fill = white ? "#fff" : mark.fill === "none" ? "none" : colourOf(mark);
    const style = { fill, stroke: white ? "#222" : colourOf(mark), opacity: mark.opacity, "vector-effect": "non-scaling-stroke", "stroke-width": "x+".includes(mark.marker) ? 1.5 : 1 };
    if (SHAPES[mark.marker]) add(svg, "path", { d: SHAPES[mark.marker], transform: `translate(${x},${y}) scale(${radius})`, ...style });
    else add(svg, "circle", { cx: x, cy: y, r: radius, ...style });
  }

  const stroke = (mark) => ({ fill: "none", stroke: colourOf(mark), "stroke-width": 1.25 * mark.width, "stroke-dasharray": DASHES[mark.dash], opacity: mark.opacity || 1 });

  const MARKS = {
    band(svg, mark, at) {
      const back = path(mark.x.slice().reverse(), mark.low.slice().reverse(), at).replace("M", "L");
      add(svg, "path", { d: path(mark.x, mark.high, at) + back + "Z", fill: colourOf(mark), "fill-opacity": mark.opacity });
    },
    line(svg, mark, at) {
      add(svg, "path", { d: path(mark.x, mark.y, at), ...stroke(mark) });
      if (mark.marker) mark.x.forEach((x, i) => mark.y[i] !== null && symbol(svg, mark, at.x(x), at.y(mark.y[i]), 3.2));
    },
    dots(svg, mark, at) {
      mark.x.forEach((x, i) => {
        if (mark.y[i] === null) return;
        if (mark.low) add(svg, "line", { x1: at.x(x), x2: at.x(x), y1: at.y(mark.low[i]), y2: at.y(mark.high[i]), stroke: colourOf(mark), "stroke-opacity": 0.6 * mark.opacity });
        symbol(svg, mark, at.x(x), at.y(mark.y[i]), 0.75 * mark.size);
      });
    },
    zone(svg, mark, at) {
      for (const [start, end] of mark.spans) {
        const a = Math.max(at.x(start), at.left), b = Math.min(at.x(end), at.right);
        if (b > a) add(svg, "rect", { x: a, y: at.top, width: b - a, height: at.bottom - at.top, fill: "var(--zone)", "fill-opacity": 0.12 });
      }
    },
    rule(svg, mark, at) {
      const ends = { x: [mark.at, mark.at], y: at.ends, slope: at.ends }[mark.along];
      const level = { x: () => 0, y: () => at.y(mark.at), slope: (x) => at.y(mark.at * x) }[mark.along];
      const upright = mark.along === "x";
      add(svg, "line", { x1: at.x(ends[0]), x2: at.x(ends[1]), y1: upright ? at.top : level(ends[0]), y2: upright ? at.bottom : level(ends[1]), ...stroke(mark) });
    },
    heat(svg, mark, at) {
      if (!Array.isArray(mark.cells[0])) return mark.cells.forEach((v, i) => add(svg, "rect", { x: at.x(mark.x[i]) - 4, y: at.y(mark.y[i]) - 4, width: 8, height: 8, fill: colourAt(mark, v) }));
      mark.cells.forEach((row, i) => row.forEach((v, j) => {
        if (v === null) return;
        const [a, b] = [at.x(mark.x[j]), at.x(mark.x[j + 1])], [c, d] = [at.y(mark.y[i]), at.y(mark.y[i + 1])];
        add(svg, "rect", { "shape-rendering": "crispEdges", x: a, y: Math.min(c, d), width: b - a + 0.4, height: Math.abs(d - c) + 0.4, fill: colourAt(mark, v) });
      }));
    },
    bars(svg, mark, at) {
      mark.value.forEach((value, i) => {
        const y = at.y(i), [a, b] = [at.x(mark.low[i]), at.x(mark.high[i])], ink = { stroke: "var(--ink)", "stroke-width": 2 };
        add(svg, "rect", { x: at.x(0), y: y - 7, width: Math.max(at.x(value) - at.x(0), 1), height: 14, fill: `var(--c${i === mark.accent ? 1 : 0})` });
        add(svg, "line", { x1: a, x2: b, y1: y, y2: y, ...ink });
        for (const end of [a, b]) add(svg, "line", { x1: end, x2: end, y1: y - 4, y2: y + 4, ...ink });
        const text = add(svg, "text", { x: at.x(0), y: y - 11 }, fitted(at.names[i], at.right - at.left - 40));
        add(text, "title", {}, at.names[i]);
      });
    },
    label(svg, mark, at) {
      const cell = at.x(1) - at.x(0), anchor = ["middle", "start", "end"].at(mark.right);
      if (!mark.right && at.names.length && CHARACTER * mark.words.length > cell) return; // a number in a cell
      const x = Math.min(Math.max(at.x(mark.x), at.left), at.right) + 7 * mark.right, y = at.y(mark.y) + 4 - 11 * mark.above;
      add(svg, "text", { x, y, "text-anchor": anchor, style: `fill: ${mark.colour === null ? "#fff" : colourOf(mark)}` }, mark.words);
    },
  };

  function colourAt(mark, value) {
    const f = mark.log ? Math.log : (v) => v, [low, high] = mark.ends, colours = PALETTES[mark.palette];
    const share = high > low ? (f(value) - f(low)) / (f(high) - f(low)) : 0.5;
    const at = Math.min(Math.max(share, 0), 1) * (colours.length - 1), i = Math.min(Math.floor(at), colours.length - 2);
    const part = (k) => Math.round(parseInt(colours[i].slice(k, k + 2), 16) * (1 - at + i) + parseInt(colours[i + 1].slice(k, k + 2), 16) * (at - i));
    return `rgb(${part(1)},${part(3)},${part(5)})`;
  }

  // Legends

  function picture(item, svg, width) {
    const made = item.appendChild(svg.cloneNode(false));
    for (const name of ["role", "aria-label", "height"]) made.removeAttribute(name);
    made.setAttribute("viewBox", `0 0 ${width} 12`); made.style.width = `${width}px`;
    return made;
  }

  function entries(legend, spec, svg) {
    const seen = new Set(), say = (item, text) => item.appendChild(document.createTextNode(text));
    for (const mark of spec.marks) {
      if (mark.type === "heat") {
        const item = add(legend, "li"), text = (v) => tickText(Number(v.toPrecision(3)));
        say(item, `${spec.title || mark.label}: ${text(mark.ends[0])} `);
        const bar = picture(item, svg, 90), f = mark.log ? Math.log : (v) => v, g = mark.log ? Math.exp : (v) => v;
        for (let k = 0; k < 30; k++) add(bar, "rect", { x: 3 * k, y: 0, width: 3.3, height: 12, fill: colourAt(mark, g(f(mark.ends[0]) + (k / 29) * (f(mark.ends[1]) - f(mark.ends[0])))) });
        say(item, ` ${text(mark.ends[1])}${mark.log ? " (logarithmic)" : ""}`);
        continue;
      }
      if (!mark.label || seen.has(mark.label)) continue;
      seen.add(mark.label);
      const item = add(legend, "li"), drawing = picture(item, svg, 22);
      if (mark.type === "line" || mark.type === "rule") add(drawing, "line", { x1: 0, x2: 22, y1: 6, y2: 6, ...stroke(mark) });
      if (mark.type === "dots" || mark.marker) symbol(drawing, mark, 11, 6, 3.5);
      if (mark.type === "band" || mark.type === "zone") add(drawing, "rect", { x: 0, y: 1, width: 22, height: 10, fill: mark.type === "zone" ? "var(--zone)" : colourOf(mark), "fill-opacity": 0.06 + 1.3 * (mark.opacity || 0.12) });
      say(item, mark.label);
    }
  }

  // Charts

  let clips = 0;
  function clip(svg, at) {
    const id = `clip${clips++}`, shape = add(add(svg, "defs"), "clipPath", { id });
    add(shape, "rect", { x: at.left - 4, y: at.top - 6, width: at.right - at.left + 8, height: at.bottom - at.top + 6 });
    return add(svg, "g", { "clip-path": `url(#${id})` });
  }

  // Draw into an empty svg of this width; return a function that marks the place of a reader, if the chart has one.
  function drawChart(svg, spec, width, height, legend) {
    const at = frame(svg, spec, width, height), inside = clip(svg, at), reader = readers[spec.reader];
    const fill = (marks) => [...marks].sort((a, b) => a.layer - b.layer).forEach((mark) => MARKS[mark.type](inside, mark, at));
    entries(legend, spec, svg);
    if (!spec.slice) fill(spec.marks);
    if (!reader) return () => {};
    const mark = (spec.marks.some((each) => each.type === "heat") ? ring : cursor)(svg, spec, at, reader);
    return () => {
      if (spec.slice) { // curves along one coordinate of the reader, through its place
        const along = reader.axes[spec.axis].map((_, k) => reader.index(spec.axis, k)), q = reader.quantities[spec.output];
        const [y, low, high] = ["mean", "low", "high"].map((key) => along.map((i) => q[key][i]));
        inside.replaceChildren();
        fill(spec.marks.map((each) => ({ ...each, y, low, high })));
      }
      mark();
    };
  }

  // The mark of the place that a reader shows, along one coordinate; pointing at the chart moves the reader.
  function cursor(svg, spec, at, reader) {
    const axis = spec.slice ? spec.axis : 0, values = reader.axes[axis], line = add(svg, "line", { class: "cursor", y1: at.top, y2: at.bottom });
    const spot = spec.output === undefined ? null : add(svg, "circle", { class: "spot", r: 5 });
    pointed(svg, (px) => px >= at.left - 6 && px <= at.right + 6 && reader.move(axis, nearest(values, (v) => at.x(v) - px)));
    return () => {
      const x = at.x(values[reader.place[axis]]), mean = spot && reader.quantities[spec.output].mean[reader.index()];
      line.setAttribute("x1", x); line.setAttribute("x2", x);
      if (!spot) return;
      spot.setAttribute("visibility", mean === null ? "hidden" : "visible");
      spot.setAttribute("cx", x); spot.setAttribute("cy", mean === null ? 0 : at.y(mean));
    };
  }

  // The same on a map of both coordinates.
  function ring(svg, spec, at, reader) {
    const rings = [["#fff", 4], ["#111", 2]].map(([colour, width]) => add(svg, "circle", { r: 7, fill: "none", stroke: colour, "stroke-width": width }));
    pointed(svg, (px, py) => {
      if (px < at.left || px > at.right || py > at.bottom) return;
      reader.move(0, nearest(reader.axes[0], (v) => at.x(v) - px), false);
      reader.move(1, nearest(reader.axes[1], (v) => at.y(v) - py));
    });
    return () => rings.forEach((each) => {
      each.setAttribute("cx", at.x(reader.axes[0][reader.place[0]]));
      each.setAttribute("cy", at.y(reader.axes[1][reader.place[1]]));
    });
  }

  function pointed(svg, move) {
    const point = (event) => {
      const box = svg.getBoundingClientRect(), unit = svg.viewBox.baseVal.width / box.width;
      move((event.clientX - box.left) * unit, (event.clientY - box.top) * unit);
    };
    svg.onpointermove = (event) => (event.pointerType === "mouse" || event.pressure > 0) && point(event);
    svg.onpointerdown = point;
  }

  function nearest(values, distance) {
    let best = 0;
    values.forEach((v, i) => { if (Math.abs(distance(v)) < Math.abs(distance(values[best]))) best = i; });
    return best;
  }

  function makeChart(element) {
    const spec = dataOf(element), svg = element.querySelector("svg[role]"), legend = element.querySelector(".legend");
    const has = (type) => spec.marks.some((mark) => mark.type === type);
    let mark = () => {}, drawn = 0;
    const draw = () => {
      const width = Math.round(element.clientWidth);
      if (!width || width === drawn) return;
      drawn = width;
      svg.replaceChildren(); legend.replaceChildren();
      const height = has("heat") ? Math.min(380, Math.max(260, 0.8 * width)) : has("bars") ? ROW * spec.y.names.length + 52 : spec.height;
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      mark = drawChart(svg, spec, width, height, legend);
      mark();
    };
    if (readers[spec.reader]) readers[spec.reader].listen(() => mark());
    draw();
    new ResizeObserver(draw).observe(element);
  }

  // Readers

  function makeReader(element) {
    const data = dataOf(element), inputs = [...element.querySelectorAll("input")], outputs = [...element.querySelectorAll("output")];
    const sizes = data.axes.map((axis) => axis.length), marked = new Set(data.marked || []), listeners = [];
    const reader = { axes: data.axes, quantities: data.quantities, place: data.middle.slice() };
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
        const text = data.places[j][reader.place[j]];
        input.value = reader.place[j];
        input.setAttribute("aria-valuetext", text);
        outputs[j].textContent = text;
      });
      const i = reader.index(), box = element.querySelector(".readings");
      box.replaceChildren();
      for (const q of data.quantities) {
        const [mean, low, high] = q.texts.map((each) => each[i]), line = add(box, "p");
        line.appendChild(document.createTextNode(`${q.name}: `));
        add(line, "strong", {}, mean);
        if (q.low[i] !== null) line.appendChild(document.createTextNode(`, ${data.level} interval ${low} to ${high}`));
      }
      if (marked.has(i)) add(box, "p", { class: "notice warning" }, data.remark);
      listeners.forEach((each) => each());
    };
    reader.listen = (listener) => listeners.push(listener);
    inputs.forEach((input, j) => input.addEventListener("input", () => reader.move(j, Number(input.value))));
    return reader;
  }

  document.querySelectorAll(".reader").forEach((each) => (readers[each.id] = makeReader(each)));
  document.querySelectorAll(".chart").forEach(makeChart);
  Object.values(readers).forEach((each) => each.tell());
})();
