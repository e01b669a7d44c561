// The charts over time and over iterations, drawn by uPlot. Those over time show the shared view.

const RIGHT = 14; // room for the end of the last label
const FONT = "12px system-ui, sans-serif";

function axis(options) {
  return {
    stroke: () => themes.colours.faint,
    grid: { stroke: () => themes.colours.grid, width: 1 },
    ticks: { show: false },
    font: FONT,
    ...options,
  };
}

function line(label, colour, options) {
  return { label, stroke: colour, width: 1.6, points: { show: false }, ...options };
}

// Marks at equal distances of a power of two times a unit: bytes read well that way.
function byteSplits(_plot, _axis, low, high) {
  let step = 2 ** Math.ceil(Math.log2(Math.max(512, (high - low) / 6)));
  if ((high - low) / step < 3) step /= 2;
  const splits = [];
  for (let at = Math.ceil(low / step) * step; at <= high; at += step) splits.push(at);
  return splits;
}

function span(text, colour) {
  const element = document.createElement("span");
  if (colour) {
    const swatch = document.createElement("i");
    swatch.className = "swatch";
    swatch.style.background = colour;
    element.append(swatch);
  }
  element.append(text);
  return element;
}

class TimeChart {
  // `data(first, step, count)` gives the columns beside the events; `texts(event)` what is said about one.
  constructor(container, readout, view, options) {
    Object.assign(this, { container, readout, view, ...options });
    container.replaceChildren();
    container.tabIndex = 0;
    this.plot = new uPlot(
      {
        width: container.clientWidth || 600,
        height: options.height,
        legend: { show: false },
        padding: [8, RIGHT, 0, 0],
        cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
        scales: { x: { time: false, range: () => [view.from, view.to] }, y: options.scale },
        axes: [
          axis({ values: (_, splits) => splits.map((value) => (Number.isInteger(value) ? formatCount(value) : "")) }),
          axis(options.axis),
        ],
        series: [{}, ...options.series],
        hooks: { drawClear: [(plot) => this.drawMarks(plot)], draw: [(plot) => this.drawOver(plot)] },
      },
      this.columns(),
      container,
    );
    const over = this.plot.over;
    gestures(over, () => over.getBoundingClientRect(), {
      pan: (x) => view.pan(x),
      zoom: (factor, x) => view.zoom(factor, x),
      hover: (x) => this.say(view.eventAt(x)),
      leave: () => this.say(null),
      tap: (x) => {
        container.focus({ preventScroll: true });
        view.choose(view.eventAt(x));
        this.say(view.eventAt(x));
      },
    });
    over.addEventListener("dblclick", () => view.reset());
    this.watch();
    this.say(null);
  }

  columns() {
    const { from, to } = this.view;
    const width = Math.max(100, this.container.clientWidth - 80) / this.pixels;
    const step = Math.max(1, 2 ** Math.floor(Math.log2((to - from) / width)));
    const first = Math.max(0, Math.floor(from / step) * step);
    const count = Math.max(1, Math.ceil((Math.min(to + step, this.view.events) - first) / step));
    const events = Array.from({ length: count }, (_, i) => first + i * step);
    return [events, ...this.data(first, step, count)];
  }

  // What is scrolled out of sight is drawn when it comes back.
  draw() {
    this.stale = !this.seen;
    if (this.seen) this.plot.setData(this.columns(), true);
  }

  watch() {
    this.seen = true;
    new IntersectionObserver(([entry]) => {
      this.seen = entry.isIntersecting;
      if (this.seen && this.stale) this.draw();
    }).observe(this.container);
  }

  resize() {
    this.plot.setSize({ width: this.container.clientWidth, height: this.height });
  }

  say(event) {
    const exact = Math.max(0, Math.min(this.view.events - 1, Math.floor(event ?? this.view.moment)));
    this.readout.replaceChildren(span(`event ${formatCount(exact)}`), ...this.texts(exact));
  }

  vertical(plot, event, colour, dash) {
    if (event < this.view.from || event > this.view.to) return;
    const x = plot.valToPos(event, "x", true);
    plot.ctx.strokeStyle = colour;
    plot.ctx.setLineDash(dash);
    plot.ctx.beginPath();
    plot.ctx.moveTo(x, plot.bbox.top);
    plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
    plot.ctx.stroke();
  }

  drawMarks(plot) {
    const shown = this.view.marks.filter((mark) => mark >= this.view.from && mark <= this.view.to);
    plot.ctx.save();
    plot.ctx.lineWidth = 1;
    if (shown.length < 120) for (const mark of shown) this.vertical(plot, mark, themes.colours.grid, [2, 3]);
    plot.ctx.restore();
  }

  drawOver(plot) {
    plot.ctx.save();
    plot.ctx.lineWidth = devicePixelRatio;
    this.vertical(plot, this.view.moment, themes.colours.ink, [5, 4]);
    this.over?.(plot);
    plot.ctx.restore();
  }
}

function timelineChart(subject, trace, view) {
  const maps = [...trace.maps].reverse(); // so that the first allocator is drawn on top
  const highest = Math.max(subject.capacity ?? 0, ...subject.results.map((r) => r.peak_reserved), trace.peak.active);
  const stepped = uPlot.paths.stepped({ align: 1 });
  return new TimeChart(document.getElementById("timeline"), document.getElementById("timeline-readout"), view, {
    height: 300,
    pixels: 1, // for a point
    scale: { range: () => [0, highest * 1.06 || 1] },
    axis: { size: 74, splits: byteSplits, values: (_, splits) => splits.map(formatBytes) },
    series: [
      line("active", () => themes.colours.active, { fill: () => `${themes.colours.active}38`, width: 1, paths: stepped }),
      ...maps.map(([name]) => line(name, subject.colours[name], { paths: stepped })),
    ],
    data: (first, step, count) =>
      [trace.active, ...maps.map(([, map]) => map.reserved)].map((levels, i) => {
        const values = bucketed(levels, first, step, count, false);
        const until = i ? maps[i - 1][1].until : trace.events; // where memory ran out the line ends
        return values.map((value, bucket) => (first + bucket * step < until ? value : null));
      }),
    texts: (event) => [
      span(`active ${formatBytes(trace.active[event])}`, themes.colours.active),
      ...[...trace.maps].map(([name, map]) => {
        const level = event < map.until ? formatBytes(map.reserved[event]) : "–";
        return span(`${name} ${level}`, subject.colours[name]);
      }),
    ],
    over: (plot) => {
      if (subject.capacity) drawCapacity(plot, subject.capacity);
      for (const result of subject.results)
        if (result.out_of_memory !== null)
          drawOutOfMemory(plot, result, trace.maps.get(result.allocator), subject.colours[result.allocator]);
    },
  });
}

function drawCapacity(plot, capacity) {
  const y = plot.valToPos(capacity, "y", true);
  const { ctx, bbox } = plot;
  ctx.strokeStyle = ctx.fillStyle = themes.colours.alarm;
  ctx.setLineDash([8, 5]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.fillText(`capacity ${formatBytes(capacity)}`, bbox.left + bbox.width - 6, y - 5 * devicePixelRatio);
}

// A cross where memory ran out, with the allocator's name beside it.
function drawOutOfMemory(plot, result, map, colour) {
  const event = result.out_of_memory;
  const { ctx, bbox } = plot;
  const x = plot.valToPos(event, "x", true);
  if (x < bbox.left || x > bbox.left + bbox.width) return;
  const y = plot.valToPos(map.reserved[Math.min(event, map.reserved.length - 1)], "y", true);
  const arm = 6 * devicePixelRatio;
  ctx.setLineDash([]);
  ctx.lineWidth = 2.5 * devicePixelRatio;
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.beginPath();
  for (const side of [-1, 1]) {
    ctx.moveTo(x - arm, y - side * arm);
    ctx.lineTo(x + arm, y + side * arm);
  }
  ctx.stroke();
  ctx.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
  const right = x < bbox.left + bbox.width / 2;
  ctx.textAlign = right ? "left" : "right";
  ctx.fillText(`${result.allocator} out of memory`, x + (right ? 2 : -2) * arm, y + 4 * devicePixelRatio);
}

function fragmentationChart(subject, trace, view) {
  const maps = [...trace.maps].reverse();
  const share = (active, reserved) => (reserved ? Math.max(0, 1 - active / reserved) : null);
  return new TimeChart(document.getElementById("fragmentation"), document.getElementById("fragmentation-readout"), view, {
    height: 190,
    pixels: 2,
    scale: { range: () => [0, 1] },
    axis: { size: 74, values: (_, splits) => splits.map((value) => `${Math.round(100 * value)} %`) },
    series: maps.map(([name]) => line(name, subject.colours[name], { width: 1 })),
    data: (first, step, count) => {
      const active = bucketed(trace.active, first, step, count, true);
      return maps.map(([, map]) => {
        const reserved = bucketed(map.reserved, first, step, count, true);
        return active.map((level, i) => (first + (i + 1) * step <= map.until ? share(level, reserved[i]) : null));
      });
    },
    texts: (event) =>
      [...trace.maps].map(([name, map]) => {
        const value = share(trace.active[event], map.reserved[event]);
        return span(`${name} ${value === null ? "-" : formatPercent(value)} %`, subject.colours[name]);
      }),
  });
}

// Memory calls in every iteration; the scale bends so that both none and thousands are readable.
function callsChart(subject) {
  const container = document.getElementById("calls");
  const readout = document.getElementById("calls-readout");
  const results = subject.results.filter((result) => result.iteration_driver_calls.length).reverse();
  container.replaceChildren();
  const iterations = Math.max(...results.map((result) => result.iteration_driver_calls.length));
  const say = (index) => {
    const number = index ?? iterations - 1;
    readout.replaceChildren(
      span(`iteration ${number}`),
      ...[...results].reverse().map((result) => {
        const calls = result.iteration_driver_calls[number];
        const ms = result.iteration_driver_ms[number];
        const text = calls === undefined ? "-" : `${formatCount(calls)} (${formatNumber(ms)} ms)`;
        return span(`${result.allocator} ${text}`, subject.colours[result.allocator]);
      }),
    );
  };
  const height = 190;
  const plot = new uPlot(
    {
      width: container.clientWidth || 600,
      height,
      legend: { show: false },
      padding: [8, RIGHT, 0, 0],
      cursor: { drag: { x: false, y: false }, y: false },
      scales: { x: { time: false, range: [-0.5, iterations - 0.5] }, y: { distr: 4, asinh: 1, range: (_, low, high) => [0, Math.max(1, high) * 1.3] } },
      axes: [
        axis({ values: (_, splits) => splits.map((value) => (Number.isInteger(value) ? value : "")) }),
        axis({
          size: 74,
          splits: (_plot, _axis, _low, high) => [0, 1, 10, 100, 1000, 1e4, 1e5, 1e6].filter((value) => value <= high),
          filter: (_, splits) => splits,
          values: (_, splits) => splits.map(formatCount),
        }),
      ],
      series: [
        {},
        ...results.map((result) => line(result.allocator, subject.colours[result.allocator], { points: { show: iterations < 120, size: 5 } })),
      ],
      hooks: { setCursor: [(shown) => say(shown.cursor.idx)] },
    },
    [
      Array.from({ length: iterations }, (_, i) => i),
      ...results.map((result) => Array.from({ length: iterations }, (_, i) => result.iteration_driver_calls[i] ?? null)),
    ],
    container,
  );
  say(null);
  return { draw: () => plot.redraw(), resize: () => plot.setSize({ width: container.clientWidth, height }) };
}
