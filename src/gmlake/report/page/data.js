// Unpacks what packing.py packed, and keeps a trace the way drawing needs it: typed arrays by allocation or by event.

const STEP = 512; // bytes: sizes are rounded up to it

async function unzip(id) {
  const text = document.getElementById(id).textContent;
  const packed = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function unpackJson(id) {
  return JSON.parse(new TextDecoder().decode(await unzip(id)));
}

// Byte planes, lowest first, of differences between neighbours.
async function unpackColumn({ column, length }) {
  const planes = await unzip(column);
  const numbers = new Uint32Array(length);
  let last = 0;
  for (let i = 0; i < length; i++) {
    const difference =
      planes[i] | (planes[length + i] << 8) | (planes[2 * length + i] << 16) | (planes[3 * length + i] << 24);
    numbers[i] = last = (last + difference) >>> 0;
  }
  return numbers;
}

class Trace {
  static async unpack(description) {
    const trace = new Trace();
    const columns = ["start", "life", "size", "stream"].map((name) => description[name] && unpackColumn(description[name]));
    const site = description.sites && unpackColumn(description.sites.of);
    const [start, life, size, stream] = await Promise.all(columns);
    Object.assign(trace, {
      events: Math.max(1, description.events), // an empty trace too has a moment to look at
      marks: description.marks,
      peak: description.peak,
      histograms: description.histograms,
      sites: description.sites,
      site: await site,
      start,
      end: life.map((events, i) => start[i] + events),
      sizes: description.sizes,
      size, // index into sizes
      stream,
      maps: new Map(Object.entries(description.maps).map(([name, map]) => [name, { ...map, description: map }])),
    });
    trace.active = trace.levels();
    await Promise.all([...trace.maps.values()].map((map) => trace.unpackReserved(map)));
    return trace;
  }

  bytes(block) {
    return this.sizes[this.size[block]];
  }

  // Active memory after every event.
  levels() {
    const levels = new Float64Array(this.events + 1);
    const rounded = this.sizes.map(roundUp);
    for (let i = 0; i < this.start.length; i++) {
      levels[this.start[i]] += rounded[this.size[i]];
      levels[this.end[i]] -= rounded[this.size[i]];
    }
    for (let event = 1; event < levels.length; event++) levels[event] += levels[event - 1];
    return levels.subarray(0, this.events);
  }

  // Reserved memory at every event, from the events at which it changes; none after memory ran out.
  async unpackReserved(map) {
    const [at, level] = await Promise.all([unpackColumn(map.reserved_at), unpackColumn(map.reserved_level)]);
    map.reserved = new Float64Array(this.events);
    for (let i = 0; i < at.length; i++)
      map.reserved.fill(level[i] * map.unit, at[i], i + 1 < at.length ? at[i + 1] : map.until);
  }

  // The pieces of a map, when it is looked at for the first time.
  async unpackPieces(map) {
    if (map.pieces) return;
    const of = (names) => Promise.all(names.map((name) => unpackColumn(map.description[name])));
    const [block, place, size] = await of(["piece_of", "piece_place", "piece_size"]);
    const [begin, life, heldPlace, heldSize] = await of(["held_begin", "held_life", "held_place", "held_size"]);
    const count = new Uint8Array(this.start.length); // of pieces, at most 255
    for (const one of block) if (count[one] < 255) count[one]++;
    map.count = count;
    map.held = { begin, end: life.map((events, i) => begin[i] + events), place: heldPlace, size: heldSize };
    map.pieces = { block, begin: block.map((b) => this.start[b]), end: block.map((b) => Math.min(this.end[b], map.until)), place, size };
  }

  // Who asked for a block, in short; null where nobody knows.
  siteLabel(block) {
    if (!this.sites) return null;
    return this.site[block] ? this.sites.labels[this.site[block] - 1] : "unknown";
  }

  stack(block) {
    if (!this.sites || !this.site[block]) return [];
    return this.sites.stacks[this.site[block] - 1].map((frame) => this.sites.frames[frame]);
  }

  // What is live after an event, by call site or else by size class; largest first.
  live(event) {
    const groups = new Map();
    for (let i = 0; i < this.start.length && this.start[i] <= event; i++) {
      if (this.end[i] <= event) continue;
      const name = this.siteLabel(i) ?? this.histograms.sizes.names[sizeClass(this.bytes(i))];
      const group = groups.get(name) ?? { name, blocks: 0, bytes: 0 };
      group.blocks++;
      group.bytes += roundUp(this.bytes(i));
      groups.set(name, group);
    }
    return [...groups.values()].sort((a, b) => b.bytes - a.bytes || (a.name < b.name ? -1 : 1));
  }
}

const roundUp = (bytes) => Math.ceil(bytes / STEP) * STEP;

// 0: up to 512 bytes, n: up to 512 << n.
const sizeClass = (bytes) => Math.ceil(Math.log2(Math.max(1, Math.ceil(bytes / STEP))));

// Levels in steps of `step` events from `first` on: the highest of each step, or their mean.
function bucketed(levels, first, step, count, mean) {
  const values = new Array(count);
  for (let bucket = 0; bucket < count; bucket++) {
    const begin = first + bucket * step;
    const end = Math.min(begin + step, levels.length);
    let highest = 0;
    let sum = 0;
    for (let event = begin; event < end; event++) {
      const level = levels[event];
      sum += level;
      if (level > highest) highest = level;
    }
    values[bucket] = mean ? sum / (end - begin) : highest;
  }
  return values;
}
