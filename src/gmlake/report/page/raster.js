// Rectangles into pixels, by hand. Physical memory has one user at a time, so no two rectangles overlap: a picture costs
// one pass over all of them plus its own pixels, however many there are. A pixel shows what is at its centre.

class Raster {
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  clear(colour) {
    this.pixels.fill(colour);
  }

  // `boxes` are columns begin, end (events), place, size (units), ordered by begin; `window` is what is shown of them.
  // `paint(i)` gives the colour of box i, `edge(i)` one for its upper and left edge if it is large, `hatch(i)` one for
  // stripes; 0: none.
  draw(boxes, window, { paint, edge, hatch }) {
    const { begin, end, place, size } = boxes;
    const { width, height, pixels } = this;
    const { from, to, low, high } = window;
    const across = width / (to - from);
    const up = height / (high - low);
    for (let i = 0; i < begin.length; i++) {
      if (begin[i] >= to) break;
      if (end[i] <= from) continue;
      const left = Math.max(0, Math.ceil((begin[i] - from) * across - 0.5));
      const right = Math.min(width, Math.ceil((end[i] - from) * across - 0.5));
      if (left >= right) continue;
      const bottom = Math.min(height, Math.ceil(height - (place[i] - low) * up - 0.5));
      const top = Math.max(0, Math.ceil(height - (place[i] + size[i] - low) * up - 0.5));
      if (top >= bottom) continue;
      const colour = paint(i);
      const stripes = hatch(i);
      const border = right - left > 4 && bottom - top > 3 ? edge(i) : 0;
      for (let row = top; row < bottom; row++) {
        const start = row * width;
        if (stripes) {
          for (let x = left; x < right; x++) pixels[start + x] = (x + row) % 8 < 2 ? stripes : colour;
        } else if (right - left < 8) {
          for (let x = left; x < right; x++) pixels[start + x] = colour;
        } else {
          pixels.fill(border && row === top ? border : colour, start + left, start + right);
        }
        if (border) pixels[start + left] = border;
      }
    }
  }
}
