// Puts the page together, and listens to the keyboard.

const byId = (id) => document.getElementById(id);
const report = { charts: [], view: null, map: null, search: null, trace: null };

function fillSelect(select, names, chosen, change) {
  select.replaceChildren(...names.map((name) => new Option(name, name, name === chosen, name === chosen)));
  select.onchange = () => change(select.value);
}

const REPLAYED =
  "Memory figures are exact for the trace: the allocators themselves ran, on a simulated device. Driver times are modelled, not measured.";
const REPORTED = "Figures are those that the processes reported.";

async function showSubject(description, number) {
  const subject = description.subjects[number];
  [...byId("subjects").children].forEach((button, i) => button.setAttribute("aria-pressed", String(i === number)));
  Object.assign(report, { charts: [], view: null, map: null, search: null, trace: null });
  byId("headline").textContent = subject.headline;
  byId("facts").textContent = facts(subject);
  byId("origin").textContent = subject.results.length ? REPLAYED : REPORTED;
  if (subject.results.length) showComparison(subject);
  else showProcesses(subject);
  const trace = subject.trace && (await Trace.unpack(subject.trace));
  for (const id of ["timeline", "map", "live", "fragmentation", "sizes", "lifetimes"]) byId(`${id}-section`).hidden = !trace;
  byId("calls-section").hidden = !subject.results.some((result) => result.iteration_driver_calls.length);
  if (!byId("calls-section").hidden) report.charts.push(callsChart(subject));
  if (trace) await showTrace(subject, trace);
}

function facts(subject) {
  const parts = [subject.name];
  const [first] = subject.results;
  if (first) {
    const iterations = subject.trace ? subject.trace.iterations : Math.max(...subject.results.map((result) => result.iterations));
    parts.push(`${formatCount(subject.trace ? subject.trace.events : first.events)} events`);
    if (iterations > 0) parts.push(`${iterations} iterations`);
    const peak = (key) => formatBytes(Math.max(...subject.results.map((result) => result[key])));
    parts.push(`peak requested ${peak("peak_requested")}, active ${peak("peak_active")}`);
  }
  if (subject.capacity) parts.push(`device of ${formatBytes(subject.capacity)}`);
  return parts.join(" · ");
}

async function showTrace(subject, trace) {
  const view = new View(trace.events, trace.marks, trace.peak.event);
  const map = new MemoryMap(subject, trace, view);
  Object.assign(report, { trace, view, map });
  const overTime = [timelineChart(subject, trace, view), fragmentationChart(subject, trace, view), map];
  report.charts.push(...overTime);
  report.search = new Search(trace, view, map);
  view.listeners.push(() => overTime.forEach((chart) => chart.draw()));
  view.chosen = (event) => {
    showLive(trace, event);
    for (const chart of overTime) chart.say?.(event);
  };
  showLive(trace, trace.peak.event);
  showHistogram("sizes", trace.histograms.sizes);
  showHistogram("lifetimes", trace.histograms.lifetimes);
  const names = [...trace.maps.keys()];
  fillSelect(byId("map-allocator"), names, names[0], (name) => map.show(name));
  await map.show(names[0]);
  fillSelect(byId("map-colour"), Object.keys(map.ways), map.way, (way) => map.colourBy(way));
}

function press(key, shift) {
  const { view, map, search } = report;
  if (key === "?") byId("help").showModal();
  else if (key === "t") themes.toggle();
  else if (!view) return false;
  else if (key === "ArrowLeft") view.pan(-0.15);
  else if (key === "ArrowRight") view.pan(0.15);
  else if (key === "ArrowUp" && shift) map.zoomPlaces(0.7);
  else if (key === "ArrowDown" && shift) map.zoomPlaces(1 / 0.7);
  else if (key === "ArrowUp" && map.high < map.units) map.panPlaces(0.15);
  else if (key === "ArrowDown" && map.low > 0) map.panPlaces(-0.15);
  else if (key === "+" || key === "=") view.zoom(0.7);
  else if (key === "-") view.zoom(1 / 0.7);
  else if (key === "0") {
    view.reset();
    map.resetPlaces();
  } else if (key === "[") view.iteration(-1);
  else if (key === "]") view.iteration(1);
  else if (key === "/") byId("search").focus();
  else if (key === "n") search.next(1);
  else if (key === "p") search.next(-1);
  else if (key === "Escape") {
    map.pin(-1);
    search.clear();
  } else return false;
  return true;
}

function listen() {
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || byId("help").open;
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (press(event.key, event.shiftKey)) event.preventDefault();
  });
  for (const button of document.querySelectorAll("[data-key]")) button.onclick = () => press(button.dataset.key, false);
  byId("theme-button").onclick = () => themes.toggle();
  byId("help-button").onclick = () => byId("help").showModal();
  new ResizeObserver(() => report.charts.forEach((chart) => chart.resize())).observe(byId("main"));
  themes.listeners.push(() => {
    if (report.map?.map) {
      report.map.paintBox();
      report.map.legend();
    }
    report.charts.forEach((chart) => chart.draw());
  });
}

async function start() {
  const description = await unpackJson("description");
  themes.start(description.palette);
  description.subjects.forEach((subject, number) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = subject.name;
    button.onclick = () => showSubject(description, number);
    byId("subjects").append(button);
  });
  byId("subjects").hidden = description.subjects.length < 2;
  listen();
  await showSubject(description, 0);
  byId("wait").hidden = true;
  window.gmlakeReport = report; // for the console, and for tests
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  byId("wait").textContent = `This report cannot be shown: ${error.message}. A browser of 2023 or newer is needed.`;
  throw error;
});
