// The memory map: physical memory over time for one allocator, with what the pointer is at.

const LEFT = 74; // room for the axis, as in the charts
const BOTTOM = 24;

class MemoryMap {
  constructor(subject, trace, view) {
    Object.assign(this, { subject, trace, view });
    this.container = document.getElementById("map");
    this.base = document.createElement("canvas");
    this.overlay = document.createElement("canvas");
    this.container.replaceChildren(this.base, this.overlay);
    this.matches = null; // a 1 for every block that was searched for and found
    this.hovered = this.pinned = -1;
    const area = () => {
      const box = this.container.getBoundingClientRect();
      return { left: box.left + LEFT, top: box.top, width: box.width - LEFT - RIGHT, height: box.height - BOTTOM };
    };
    gestures(this.overlay, area, {
      pan: (x, y) => {
        view.pan(x);
        this.panPlaces(-y);
      },
      zoom: (factor, x, y, places) => (places ? this.zoomPlaces(factor, 1 - y) : view.zoom(factor, x)),
      hover: (x, y, event) => this.hover(x, y, event),
      leave: () => this.leave(),
      tap: (x, y, event) => {
        this.container.focus({ preventScroll: true });
        view.choose(view.eventAt(x));
        this.hover(x, y, event);
        this.pin(this.hovered);
      },
    });
    this.overlay.addEventListener("dblclick", () => {
      view.reset();
      this.resetPlaces();
    });
  }

  async show(allocator) {
    const map = this.trace.maps.get(allocator);
    await this.trace.unpackPieces(map);
    this.map = map;
    this.allocator = allocator;
    this.units = map.top / map.unit;
    this.pin(-1);
    this.resetPlaces();
    this.ways = colourings(this.trace, map);
    this.colourBy(this.ways[this.way] ? this.way : this.trace.sites ? "call site" : "size");
  }

  colourBy(way) {
    this.way = way;
    const { of } = this.ways[way];
    this.class = Uint8Array.from(this.trace.start, (_, block) => of(block));
    this.paintBox();
    this.legend();
    this.draw();
  }

  // Colours as pixels: per class plain, at an edge, hatched, and dimmed for what a search did not find.
  paintBox() {
    const { paper, held, ink } = themes.colours;
    const classes = this.ways[this.way].classes;
    this.paper = pixel(rgb(paper));
    this.held = pixel(rgb(held));
    this.plain = Uint32Array.from(classes, ({ colour }) => pixel(rgb(colour)));
    this.edged = Uint32Array.from(classes, ({ colour }) => pixel(blend(colour, paper, 0.4)));
    this.striped = Uint32Array.from(classes, ({ colour }) => pixel(blend(colour, themes.dark ? ink : paper, 0.55)));
    this.dimmed = Uint32Array.from(classes, ({ colour }) => pixel(blend(colour, held, 0.86)));
  }

  legend() {
    const { held } = themes.colours;
    document.getElementById("map-legend").replaceChildren(
      span("reserved, not in use", held),
      ...this.ways[this.way].classes.map(({ name, colour }) => span(name, colour)),
    );
  }

  resetPlaces() {
    this.low = 0;
    this.high = Math.max(1, this.units);
    this.view.changed();
  }

  panPlaces(share) {
    const span = this.high - this.low;
    this.low = Math.max(0, Math.min(this.units - span, this.low + share * span));
    this.high = this.low + span;
    this.view.changed();
  }

  zoomPlaces(factor, at = 0.5) {
    const span = Math.max(1, Math.min(this.units, (this.high - this.low) * factor));
    this.low = Math.max(0, Math.min(this.units - span, this.low + at * (this.high - this.low - span)));
    this.high = this.low + span;
    this.view.changed();
  }

  resize() {
    this.raster = null;
    this.draw();
  }

  draw() {
    if (!this.map) return;
    const density = Math.min(2, devicePixelRatio || 1);
    const width = this.container.clientWidth;
    const height = this.container.clientHeight;
    if (!this.raster || this.density !== density) {
      this.density = density;
      for (const canvas of [this.base, this.overlay]) {
        canvas.width = Math.round(width * density);
        canvas.height = Math.round(height * density);
        canvas.style.width = `${width}px`;
        canvas.style.height = `${height}px`;
      }
      const inside = [width - LEFT - RIGHT, height - BOTTOM].map((length) => Math.max(1, Math.round(length * density)));
      this.raster = new Raster(...inside);
    }
    const { raster, map } = this;
    const window = { from: this.view.from, to: this.view.to, low: this.low, high: this.high };
    const none = () => 0;
    raster.clear(this.paper);
    raster.draw(map.held, window, { paint: () => this.held, edge: none, hatch: none });
    const { block } = map.pieces;
    const { plain, edged, striped, dimmed, matches } = this;
    const classes = this.class;
    const edge = (i) => edged[classes[block[i]]];
    if (matches)
      raster.draw(map.pieces, window, {
        paint: (i) => (matches[block[i]] ? plain : dimmed)[classes[block[i]]],
        edge: (i) => (matches[block[i]] ? edge(i) : 0),
        hatch: none,
      });
    else
      raster.draw(map.pieces, window, {
        paint: (i) => plain[classes[block[i]]],
        edge,
        hatch: (i) => (map.count[block[i]] > 1 ? striped[classes[block[i]]] : 0),
      });
    const context = this.base.getContext("2d");
    context.putImageData(raster.image, Math.round(LEFT * density), 0);
    this.drawAxes(context, width, height, density);
    this.drawOverlay();
  }

  drawAxes(context, width, height, density) {
    context.save();
    context.scale(density, density);
    context.clearRect(0, 0, LEFT, height);
    context.clearRect(0, height - BOTTOM, width, BOTTOM);
    context.font = FONT;
    context.fillStyle = themes.colours.faint;
    context.textAlign = "right";
    context.textBaseline = "middle";
    const { unit } = this.map;
    for (const bytes of byteSplits(null, null, this.low * unit, this.high * unit)) {
      const y = (height - BOTTOM) * (1 - (bytes / unit - this.low) / (this.high - this.low));
      context.fillText(formatBytes(bytes), LEFT - 8, Math.max(7, Math.min(height - BOTTOM - 5, y)));
    }
    context.textAlign = "left";
    context.fillText(`event ${formatCount(Math.floor(this.view.from))}`, LEFT, height - BOTTOM / 2);
    context.textAlign = "right";
    context.fillText(formatCount(Math.ceil(this.view.to)), width - RIGHT, height - BOTTOM / 2);
    context.restore();
  }

  x(event) {
    return LEFT + ((event - this.view.from) / this.view.span) * (this.container.clientWidth - LEFT - RIGHT);
  }

  y(units) {
    return (this.container.clientHeight - BOTTOM) * (1 - (units - this.low) / (this.high - this.low));
  }

  // The moment, the marks of iterations, the capacity, and the outlines of the chosen blocks with a line through them.
  drawOverlay() {
    const context = this.overlay.getContext("2d");
    context.setTransform(this.density, 0, 0, this.density, 0, 0);
    const width = this.container.clientWidth;
    const height = this.container.clientHeight - BOTTOM;
    context.clearRect(0, 0, width, height + BOTTOM);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT - RIGHT, height);
    context.clip();
    const straight = (x1, y1, x2, y2) => {
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x2, y2);
      context.stroke();
    };
    context.setLineDash([5, 4]);
    context.strokeStyle = themes.colours.ink;
    straight(this.x(this.view.moment), 0, this.x(this.view.moment), height);
    if (this.subject.capacity) {
      context.strokeStyle = themes.colours.alarm;
      const y = this.y(this.subject.capacity / this.map.unit);
      straight(LEFT, y, width, y);
    }
    context.setLineDash([]);
    for (const block of new Set([this.pinned, this.hovered])) {
      if (block < 0) continue;
      context.strokeStyle = themes.colours.ink;
      context.lineWidth = block === this.pinned ? 2 : 1.5;
      const pieces = this.piecesOf(block);
      const left = Math.max(LEFT - 4, this.x(this.trace.start[block]));
      const right = Math.min(width + 4, this.x(this.trace.end[block]));
      for (const { place, size } of pieces)
        context.strokeRect(left, this.y(place + size), Math.max(2, right - left), Math.max(2, this.y(place) - this.y(place + size)));
      if (pieces.length > 1) {
        const edges = pieces.flatMap(({ place, size }) => [place, place + size]);
        straight(left, this.y(Math.min(...edges)), left, this.y(Math.max(...edges)));
      }
    }
    context.restore();
  }

  piecesOf(block) {
    const { pieces } = this.map;
    const found = [];
    let low = 0; // pieces are ordered by block
    for (let high = pieces.block.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (pieces.block[middle] < block) low = middle + 1;
      else high = middle;
    }
    for (let i = low; i < pieces.block.length && pieces.block[i] === block; i++)
      found.push({ place: pieces.place[i], size: pieces.size[i] });
    return found;
  }

  // The block at an event and a place, or -1.
  blockAt(event, units) {
    const { block, begin, end, place, size } = this.map.pieces;
    for (let i = 0; i < begin.length && begin[i] <= event; i++)
      if (end[i] > event && place[i] <= units && units < place[i] + size[i]) return block[i];
    return -1;
  }

  hover(x, y, pointer) {
    if (!this.map || x < 0 || x > 1 || y < 0 || y > 1) return this.leave();
    const units = this.low + (1 - y) * (this.high - this.low);
    const block = this.blockAt(this.view.eventAt(x), units);
    if (block !== this.hovered) {
      this.hovered = block;
      this.drawOverlay();
    }
    const tip = document.getElementById("tip");
    tip.hidden = block < 0;
    if (block < 0) return undefined;
    tip.replaceChildren(...describeBlock(this, block));
    const right = pointer.clientX > innerWidth / 2;
    tip.style.left = right ? "auto" : `${pointer.clientX + 14}px`;
    tip.style.right = right ? `${innerWidth - pointer.clientX + 14}px` : "auto";
    tip.style.top = `${Math.min(pointer.clientY + 14, innerHeight - tip.offsetHeight - 6)}px`;
    return undefined;
  }

  leave() {
    document.getElementById("tip").hidden = true;
    if (this.hovered < 0) return;
    this.hovered = -1;
    this.drawOverlay();
  }

  pin(block) {
    this.pinned = block;
    const panel = document.getElementById("block");
    panel.replaceChildren(...(block < 0 ? [] : [...describeBlock(this, block), ...describeOrigin(this, block)]));
    if (this.raster) this.drawOverlay();
  }
}
