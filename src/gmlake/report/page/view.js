// The stretch of time that all charts show, and the moment that is looked at. Changes are told once per frame.

class View {
  constructor(events, marks, moment) {
    this.events = Math.max(1, events);
    this.marks = marks;
    this.moment = moment;
    this.from = 0;
    this.to = this.events;
    this.listeners = [];
    this.frame = 0;
  }

  get span() {
    return this.to - this.from;
  }

  set(from, to) {
    const span = Math.min(this.events, Math.max(Math.min(8, this.events), to - from));
    this.from = Math.max(0, Math.min(from, this.events - span));
    this.to = this.from + span;
    this.changed();
  }

  pan(share) {
    this.set(this.from + share * this.span, this.to + share * this.span);
  }

  // `factor` above 1 shows more; `at` is the share of the view that stays where it is.
  zoom(factor, at = 0.5) {
    const span = Math.min(this.events, Math.max(8, this.span * factor));
    const from = this.from + at * (this.span - span);
    this.set(from, from + span);
  }

  reset() {
    this.set(0, this.events);
  }

  // The iteration that begins after (1) or before (-1) the middle of the view.
  iteration(direction) {
    const starts = this.marks.filter((mark) => mark < this.events - 1); // as the last event a mark ends an iteration
    if (!starts.length) return;
    const middle = (this.from + this.to) / 2;
    let number = starts.findLastIndex((mark) => mark <= middle);
    number = Math.max(0, Math.min(starts.length - 1, this.span < this.events ? number + direction : number));
    this.set(starts[number], this.marks[number + 1] ?? this.events);
  }

  choose(event) {
    this.moment = Math.max(0, Math.min(this.events - 1, Math.floor(event)));
    this.chosen?.(this.moment);
    this.changed();
  }

  eventAt(share) {
    return this.from + share * this.span;
  }

  changed() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      for (const listener of this.listeners) listener();
    });
  }
}
