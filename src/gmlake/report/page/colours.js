// Light and dark, and the colours that things have.

const themes = {
  palette: null, // as palette.py gives it
  listeners: [],

  start(palette) {
    this.palette = palette;
    const system = matchMedia("(prefers-color-scheme: dark)");
    this.set(system.matches);
    system.addEventListener("change", () => this.set(system.matches));
  },
  set(dark) {
    document.documentElement.classList.toggle("dark", dark);
    this.dark = dark;
    this.colours = this.palette.themes[dark ? "dark" : "light"];
    for (const listener of this.listeners) listener();
  },
  toggle() {
    this.set(!this.dark);
  },
};

const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

const hex = (parts) => `#${parts.map((value) => value.toString(16).padStart(2, "0")).join("")}`;

// As canvases store a pixel: little-endian RGBA.
const pixel = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

function blend(one, other, share) {
  const to = rgb(other);
  return rgb(one).map((value, i) => Math.round(value * (1 - share) + to[i] * share));
}

// Ways to colour blocks: a class for every block, and classes with a name and a colour each.
function colourings(trace, map) {
  const { scale, groups, others } = themes.palette;
  const step = (number, of) => {
    const at = of < 2 ? 5 : (number * (scale.length - 1)) / (of - 1);
    return hex(blend(scale[Math.floor(at)], scale[Math.ceil(at)], at % 1));
  };
  const ways = {};
  const smallest = 11; // class of 1 MiB: smaller ones are seldom seen and share a colour
  const bySize = trace.sizes.map((bytes) => Math.max(0, sizeClass(bytes) - smallest));
  const largest = Math.max(0, ...bySize);
  ways.size = {
    of: (block) => bySize[trace.size[block]],
    classes: Array.from({ length: largest + 1 }, (_, i) => ({
      name: i ? trace.histograms.sizes.names[i + smallest] : "up to 1 MiB",
      colour: step(i, largest + 1),
    })),
  };
  if (trace.sites) {
    const top = trace.live(trace.peak.event).slice(0, groups.length).map((group) => group.name);
    const group = (label) => (top.includes(label) ? top.indexOf(label) : top.length);
    const bySite = ["unknown", ...trace.sites.labels].map(group);
    ways["call site"] = {
      of: (block) => bySite[trace.site[block]],
      classes: [...top.map((name, i) => ({ name, colour: groups[i] })), { name: "others", colour: others }],
    };
  }
  const pieces = ["1 piece", "2", "3 to 4", "5 to 8", "9 and more"];
  ways.pieces = {
    of: (block) => Math.min(4, Math.ceil(Math.log2(Math.max(1, map.count[block])))),
    classes: pieces.map((name, i) => ({ name, colour: i ? step(i + 1, 6) : others })),
  };
  const lives = ["up to 16 events", "256", "4,096", "65,536", "longer"];
  ways.lifetime = {
    of: (block) => Math.min(4, Math.max(0, Math.ceil(Math.log2(trace.end[block] - trace.start[block]) / 4) - 1)),
    classes: lives.map((name, i) => ({ name, colour: step(i, 5) })),
  };
  if (trace.stream) {
    const most = trace.stream.reduce((a, b) => Math.max(a, b), 0);
    ways.stream = {
      of: (block) => Math.min(trace.stream[block], groups.length),
      classes: Array.from({ length: Math.min(most, groups.length) + 1 }, (_, i) => ({
        name: `stream ${i}${i === groups.length ? " and above" : ""}`,
        colour: groups[i] ?? others,
      })),
    };
  }
  return ways;
}
