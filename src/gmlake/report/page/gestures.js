// Pointer, wheel and touch on a plot, told as shares of its width and height (0, 0 is the upper left corner).

const STILL = 4; // pixels a click may move

function gestures(element, area, { pan, zoom, hover, leave, tap }) {
  const fingers = new Map();
  let moved = 0;
  const place = (event) => {
    const box = area();
    return { x: (event.clientX - box.left) / box.width, y: (event.clientY - box.top) / box.height };
  };
  const spread = () => {
    const [one, other] = [...fingers.values()];
    return { distance: Math.abs(one.x - other.x) + 0.01, x: (one.x + other.x) / 2 };
  };

  element.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    fingers.set(event.pointerId, place(event));
    moved = 0;
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    const now = place(event);
    const before = fingers.get(event.pointerId);
    if (!before) {
      hover?.(now.x, now.y, event);
      return;
    }
    const box = area();
    moved += Math.abs(now.x - before.x) * box.width + Math.abs(now.y - before.y) * box.height;
    if (fingers.size === 2) {
      const was = spread();
      fingers.set(event.pointerId, now);
      const is = spread();
      zoom(was.distance / is.distance, is.x, 0.5, false);
      pan(was.x - is.x, 0);
    } else if (moved > STILL) {
      fingers.set(event.pointerId, now);
      element.classList.add("moving");
      leave?.();
      pan(before.x - now.x, before.y - now.y);
    }
  });
  const up = (event) => {
    const last = fingers.get(event.pointerId);
    fingers.delete(event.pointerId);
    element.classList.remove("moving");
    if (last && event.type === "pointerup" && moved <= STILL) tap?.(last.x, last.y, event);
  };
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", up);
  element.addEventListener("pointerleave", () => leave?.());
  element.addEventListener(
    "wheel",
    (event) => {
      const ours = event.ctrlKey || event.metaKey || event.shiftKey || element.contains(document.activeElement);
      if (!ours) return;
      event.preventDefault();
      const { x, y } = place(event);
      const turn = event.deltaY || event.deltaX;
      zoom(Math.exp(Math.max(-1, Math.min(1, turn / 300))), x, y, event.shiftKey);
    },
    { passive: false },
  );
}
