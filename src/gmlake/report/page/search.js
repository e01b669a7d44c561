// Finding blocks: by number, by size, or by part of a call site.

function finder(trace, query) {
  const text = query.trim();
  const number = /^#(\d+)$/.exec(text);
  if (number) return (block) => block === Number(number[1]);
  const range = /^(.+?)\.\.(.+)$/.exec(text)?.slice(1).map(parseBytes);
  if (range && range[0] !== null && range[1] !== null)
    return (block) => trace.bytes(block) >= range[0] && trace.bytes(block) <= range[1];
  const [, sign, rest] = /^(>=|<=|>|<|=)?\s*(.*)$/.exec(text);
  const size = parseBytes(rest);
  if (size !== null) {
    const tests = {
      ">": (bytes) => bytes > size,
      ">=": (bytes) => bytes >= size,
      "<": (bytes) => bytes < size,
      "<=": (bytes) => bytes <= size,
    };
    // A size as it is shown is a rounded one.
    const near = (bytes) => formatBytes(bytes) === formatBytes(size);
    const fits = trace.sizes.map(tests[sign] ?? near);
    return (block) => fits[trace.size[block]];
  }
  if (!trace.sites) return () => false;
  const wanted = text.toLowerCase();
  const frames = trace.sites.frames.map(([file, at, name]) => `${file}:${at} ${name}`.toLowerCase().includes(wanted));
  const sites = [false, ...trace.sites.stacks.map((stack) => stack.some((frame) => frames[frame]))];
  return (block) => sites[trace.site[block]];
}

class Search {
  constructor(trace, view, map) {
    Object.assign(this, { trace, view, map, found: [], at: -1 });
    this.input = document.getElementById("search");
    this.status = document.getElementById("found");
    this.input.value = "";
    this.input.oninput = () => this.run();
    this.input.onkeydown = (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") this.clear();
      if (event.key === "Enter" || event.key === "Escape") event.preventDefault();
    };
    this.say();
  }

  run() {
    this.found = [];
    this.at = -1;
    this.map.matches = null;
    if (this.input.value.trim()) {
      const fits = finder(this.trace, this.input.value);
      const matches = new Uint8Array(this.trace.start.length);
      for (let block = 0; block < matches.length; block++)
        if (fits(block)) {
          matches[block] = 1;
          this.found.push(block);
        }
      this.map.matches = matches;
    }
    this.say();
    this.view.changed();
  }

  say() {
    const total = this.found.length;
    const place = this.at < 0 ? "" : `${formatCount(this.at + 1)} of `;
    this.status.textContent = !this.input.value.trim() ? "" : total ? `${place}${formatCount(total)} blocks` : "nothing found";
  }

  // Goes to the next of what was found, and shows it with some of what is around it.
  next(direction) {
    if (!this.found.length) return;
    this.at = (this.at + direction + this.found.length) % this.found.length;
    const block = this.found[this.at];
    const { start, end } = this.trace;
    const life = end[block] - start[block];
    if (start[block] < this.view.from || end[block] > this.view.to || life < this.view.span / 400)
      this.view.set(start[block] - life - 4, end[block] + life + 4);
    this.map.pin(block);
    this.say();
  }

  clear() {
    this.input.value = "";
    this.input.blur();
    this.run();
  }
}
