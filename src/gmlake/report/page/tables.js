// Tables and sentences. Everything that comes from a trace goes in as text, never as markup.

function cell(text, className = "") {
  const element = document.createElement("td");
  element.className = className;
  element.append(text);
  return element;
}

function headRow(names) {
  const head = document.createElement("thead");
  const row = head.insertRow();
  for (const name of names) {
    const element = document.createElement("th");
    element.textContent = name;
    row.append(element);
  }
  return head;
}

function nameCell(name, colour) {
  const element = cell("", "name");
  element.append(...span(name, colour).childNodes);
  return element;
}

const COLUMNS = [
  ["reserved GiB", (r) => (r.out_of_memory === null ? r.peak_reserved : null), formatGiB, Math.min, true],
  ["utilisation %", (r) => (r.out_of_memory === null ? r.utilisation : null), formatPercent, Math.max],
  ["smallest GiB", (r) => r.smallest_capacity, formatGiB, Math.min],
  ["retries", (r) => r.retries || null, formatCount, null],
  ["out of memory at event", (r) => r.out_of_memory, formatCount, null],
  ["driver calls / iteration", (r) => r.warm_driver_calls, formatNumber, Math.min],
  ["driver ms / iteration", (r) => r.warm_driver_ms, formatNumber, Math.min],
  ["driver ms in all", (r) => (r.out_of_memory === null ? r.driver_ms : null), formatNumber, Math.min],
];

function showComparison(subject) {
  const table = document.getElementById("comparison");
  const { results } = subject;
  const columns = COLUMNS.filter(([, value]) => results.some((result) => value(result) !== null));
  const body = document.createElement("tbody");
  for (const result of results) {
    const row = body.insertRow();
    row.append(nameCell(result.allocator, subject.colours[result.allocator]));
    for (const [, value, format, best, meter] of columns) {
      const known = results.map(value).filter((number) => number !== null);
      const number = value(result);
      const wins = best && number !== null && known.length > 1 && format(number) === format(best(...known));
      const element = cell(number === null ? "–" : format(number), wins ? "best" : "");
      if (meter && number !== null) {
        element.classList.add("meter");
        const bar = document.createElement("i");
        bar.style.width = `${(100 * number) / Math.max(...known)}%`;
        bar.style.background = subject.colours[result.allocator];
        element.append(bar);
      }
      row.append(element);
    }
  }
  table.replaceChildren(headRow(["allocator", ...columns.map(([name]) => name)]), body);
  document.getElementById("notes").textContent = results
    .filter((result) => result.out_of_memory_message)
    .map((result) => `${result.allocator}: ${result.out_of_memory_message}`)
    .join("\n");
}

function showProcesses(subject) {
  const table = document.getElementById("comparison");
  const body = document.createElement("tbody");
  for (const process of subject.processes)
    for (const device of process.devices) {
      const size = (value) => (value === null ? "–" : formatBytes(value));
      const name = process.rank === null ? `${process.pid}` : `rank ${process.rank} (${process.pid})`;
      const row = body.insertRow();
      const cells = [
        process.backend,
        device.device,
        size(device.peak_requested),
        size(device.peak_active),
        size(device.peak_reserved ?? device.peak_on_device),
        device.retries ?? "–",
        device.out_of_memory ?? "–",
      ];
      row.append(cell(name), ...cells.map((text) => cell(String(text))));
    }
  const names = ["process", "allocator", "GPU", "peak requested", "peak active", "peak reserved", "retries", "out of memory"];
  table.replaceChildren(headRow(names), body);
  document.getElementById("notes").textContent = "";
}

// Rows of a name, a bar, bytes and blocks; `key` says which of the two the bar is for.
function showBars(table, rows, key) {
  const longest = Math.max(1, ...rows.map((row) => row[key]));
  const body = document.createElement("tbody");
  for (const entry of rows) {
    const { name, blocks, bytes } = entry;
    const row = body.insertRow();
    const bar = document.createElement("i");
    bar.style.width = `${(100 * entry[key]) / longest}%`;
    const title = cell(name);
    title.title = name;
    row.append(title, cell(bar, "bar-cell"), cell(formatBytes(bytes)), cell(formatCount(blocks)));
  }
  table.replaceChildren(headRow(["", "", "bytes", "blocks"]), body);
}

function showHistogram(id, { names, blocks, bytes }) {
  const rows = names.map((name, i) => ({ name, blocks: blocks[i], bytes: bytes[i] })).filter((row) => row.blocks);
  showBars(document.getElementById(id), rows, "blocks");
}

const MOST = 24; // groups that are shown

function showLive(trace, event) {
  const groups = trace.live(event);
  const shown = groups.slice(0, MOST);
  const rest = groups.slice(MOST);
  const sum = (key) => rest.reduce((total, group) => total + group[key], 0);
  if (rest.length) shown.push({ name: `${rest.length} more`, blocks: sum("blocks"), bytes: sum("bytes") });
  const where = event === trace.peak.event ? "the peak, " : "";
  const total = formatBytes(trace.active[event]);
  const by = trace.sites ? "call site" : "size";
  document.getElementById("live-title").textContent = `Live at ${where}event ${formatCount(event)}: ${total} by ${by}`;
  showBars(document.getElementById("live"), shown, "bytes");
}

// A block in words, as lines.
function describeBlock(map, block) {
  const { trace } = map;
  const entry = (text, strong) => {
    const element = document.createElement("div");
    const inner = document.createElement(strong ? "b" : "span");
    inner.textContent = text;
    element.append(inner);
    return element;
  };
  const life = trace.end[block] - trace.start[block];
  const until = trace.end[block] < trace.events ? `to ${formatCount(trace.end[block])}` : "to the end";
  const stream = trace.stream ? `, stream ${trace.stream[block]}` : "";
  const lines = [
    entry(`#${block}: ${formatBytes(trace.bytes(block))}`, true),
    entry(`event ${formatCount(trace.start[block])} ${until}, ${formatCount(life)} events${stream}`),
  ];
  const pieces = map.piecesOf(block);
  if (pieces.length > 1) {
    const shown = pieces.slice(0, 6).map(({ place, size }) => `${formatBytes(size * map.map.unit)} at ${formatBytes(place * map.map.unit)}`);
    const more = pieces.length > 6 ? ` and ${pieces.length - 6} more` : "";
    lines.push(entry(`stitched from ${pieces.length} pieces: ${shown.join(", ")}${more}`));
  }
  const label = trace.siteLabel(block);
  if (label !== null) lines.push(entry(label));
  return lines;
}

// The whole stack of a block.
function describeOrigin(map, block) {
  const stack = map.trace.stack(block);
  if (!stack.length) return [];
  const list = document.createElement("ol");
  for (const [file, at, name] of stack) {
    const item = document.createElement("li");
    item.textContent = `${name} (${file}:${at})`;
    list.append(item);
  }
  return [list];
}
