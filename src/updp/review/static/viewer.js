// Films on canvases that share zoom, pan, window and level. Place is kept in parts of a film, so sizes may differ.
"use strict";
class Viewer {
  constructor(canvases, told) {
    this.canvases = canvases;
    this.told = told || (() => {});
    this.films = canvases.map(() => null);
    this.mode = "plain";
    this.reset();
    canvases.forEach((canvas, n) => this.listen(canvas, n));
    this.observer = new ResizeObserver(() => this.draw());
    canvases.forEach((canvas) => this.observer.observe(canvas));
  }

  reset() {
    Object.assign(this, { zoom: 1, x: 0.5, y: 0.5, width: 255, level: 127.5, inverted: false });
    this.stale = true;
  }

  // Window, level and zoom.
  get words() { return `W ${Math.round(this.width)} · L ${Math.round(this.level)} · ${Math.round(this.zoom * 100)} %`; }

  // A film as an ImageBitmap; its values are taken from it once. A colour photo also has grey values, for edges and the
  // difference.
  show(n, bitmap) {
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height), context = canvas.getContext("2d", { willReadFrequently: true });
    context.drawImage(bitmap, 0, 0);
    const data = context.getImageData(0, 0, bitmap.width, bitmap.height).data, grey = new Uint8Array(bitmap.width * bitmap.height);
    let coloured = false;
    for (let i = 0, j = 0; i < grey.length; i++, j += 4) {
      const r = data[j], g = data[j + 1], b = data[j + 2];
      if (r === g && g === b) grey[i] = r;
      else { grey[i] = Math.round(0.299 * r + 0.587 * g + 0.114 * b); coloured = true; }
    }
    this.films[n] = { width: bitmap.width, height: bitmap.height, grey, colours: coloured ? data : null, canvas };
    this.stale = true;
    this.draw();
  }

  clear(n) { this.films[n] = null; this.draw(); }

  // The grey values of a film at another size, nearest neighbour.
  static sized(film, width, height) {
    const out = new Uint8Array(width * height);
    for (let y = 0, i = 0; y < height; y++) {
      const from = Math.floor(y * film.height / height) * film.width;
      for (let x = 0; x < width; x++) out[i++] = film.grey[from + Math.floor(x * film.width / width)];
    }
    return out;
  }

  paint() {
    const low = this.level - this.width / 2, gain = 255 / Math.max(1, this.width), table = new Uint8ClampedArray(256);
    for (let v = 0; v < 256; v++) table[v] = this.inverted ? 255 - (v - low) * gain : (v - low) * gain;
    this.films.forEach((film, n) => {
      if (!film) return;
      const { width, height } = film, context = film.canvas.getContext("2d"), image = context.createImageData(width, height), out = image.data;
      const put = (i, r, g, b) => { const j = i * 4; out[j] = r; out[j + 1] = g; out[j + 2] = b; out[j + 3] = 255; };
      const other = this.films[1 - n];
      if (this.mode === "difference" && other && n === 1) {
        const first = Viewer.sized(other, width, height);
        for (let i = 0; i < film.grey.length; i++) {
          const apart = (film.grey[i] - first[i]) * 2, base = film.grey[i] * 0.25;
          put(i, base + Math.max(0, apart), base + Math.abs(apart) * 0.25, base + Math.max(0, -apart));
        }
      } else if (this.mode === "edges") {
        const g = film.grey;
        for (let y = 0, i = 0; y < height; y++) for (let x = 0; x < width; x++, i++) {
          const l = x ? i - 1 : i, r = x < width - 1 ? i + 1 : i, t = y ? i - width : i, b = y < height - 1 ? i + width : i;
          const v = Math.hypot(g[r] - g[l], g[b] - g[t]) * (2.5 * Math.max(1, width / 256));
          put(i, v, v, v);
        }
      } else if (film.colours) {
        const c = film.colours;
        for (let i = 0, j = 0; i < film.grey.length; i++, j += 4) put(i, table[c[j]], table[c[j + 1]], table[c[j + 2]]);
      } else for (let i = 0; i < film.grey.length; i++) { const v = table[film.grey[i]]; put(i, v, v, v); }
      context.putImageData(image, 0, 0);
    });
    this.stale = false;
  }

  draw() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      if (this.stale) this.paint();
      this.canvases.forEach((canvas, n) => this.place(canvas, this.films[n]));
      this.told(this);
    });
  }

  place(canvas, film) {
    const ratio = devicePixelRatio || 1, width = Math.round(canvas.clientWidth * ratio), height = Math.round(canvas.clientHeight * ratio);
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    const context = canvas.getContext("2d");
    context.fillStyle = "#000";
    context.fillRect(0, 0, width, height);
    if (!film) return;
    const scale = Math.min(width / film.width, height / film.height) * this.zoom;
    context.imageSmoothingEnabled = scale < 6;
    context.imageSmoothingQuality = "high";
    context.drawImage(film.canvas, width / 2 - this.x * film.width * scale, height / 2 - this.y * film.height * scale, film.width * scale, film.height * scale);
  }

  zoomed(factor, dx = 0, dy = 0) {
    const before = this.zoom;
    this.zoom = Math.min(40, Math.max(0.5, this.zoom * factor));
    this.x += dx * (1 / before - 1 / this.zoom);
    this.y += dy * (1 / before - 1 / this.zoom);
    this.draw();
  }

  moved(dx, dy) {
    this.x = Math.min(1.2, Math.max(-0.2, this.x + dx / this.zoom));
    this.y = Math.min(1.2, Math.max(-0.2, this.y + dy / this.zoom));
    this.draw();
  }

  windowed(width, level) {
    this.width = Math.min(510, Math.max(2, this.width + width));
    this.level = Math.min(255, Math.max(0, this.level + level));
    this.stale = true;
    this.draw();
  }

  chosen(mode) { this.mode = mode; this.stale = true; this.draw(); }

  listen(canvas) {
    const size = () => Math.min(canvas.clientWidth, canvas.clientHeight) || 1;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = canvas.getBoundingClientRect();
      this.zoomed(Math.exp(-event.deltaY / 400), (event.clientX - box.left - box.width / 2) / size(), (event.clientY - box.top - box.height / 2) / size());
    }, { passive: false });
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.drag = { x: event.clientX, y: event.clientY, window: event.shiftKey || event.button === 2 };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.drag) return;
      const dx = event.clientX - this.drag.x, dy = event.clientY - this.drag.y;
      Object.assign(this.drag, { x: event.clientX, y: event.clientY });
      if (this.drag.window) this.windowed(dx, dy);
      else this.moved(-dx / size(), -dy / size());
    });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { this.drag = null; });
  }

  // A key that belongs to the films; true where it was one.
  key(event) {
    const pan = { ArrowLeft: [-0.05, 0], ArrowRight: [0.05, 0], ArrowUp: [0, -0.05], ArrowDown: [0, 0.05] }[event.key];
    if (pan && this.canvases.includes(document.activeElement)) this.moved(...pan);
    else if (event.key === "+" || event.key === "=") this.zoomed(1.25);
    else if (event.key === "-" || event.key === "−") this.zoomed(0.8);
    else if (event.key === "0") { this.reset(); this.draw(); }
    else if (event.key === "[") this.windowed(0, -8);
    else if (event.key === "]") this.windowed(0, 8);
    else if (event.key === "{") this.windowed(-16, 0);
    else if (event.key === "}") this.windowed(16, 0);
    else if (event.key.toLowerCase() === "i") { this.inverted = !this.inverted; this.stale = true; this.draw(); }
    else return false;
    return true;
  }
}
