"use strict";
// Curves tell their values: under the pointer, or by the arrow keys when they have the focus.
for (const figure of document.querySelectorAll("figure.plot")) {
  const source = figure.querySelector("script");
  if (!source) continue;
  const data = JSON.parse(source.textContent);
  const svg = figure.querySelector("svg");
  const words = figure.querySelector(".readout");
  const [left, top, right, bottom] = data.box;
  const [low, high] = data.ends;
  const xs = [...new Set(data.series.flatMap((one) => one.points.map((point) => point[0])))].sort((a, b) => a - b);
  const cross = document.createElementNS("http://www.w3.org/2000/svg", "line");
  cross.setAttribute("class", "cross");
  cross.setAttribute("y1", top);
  cross.setAttribute("y2", bottom);
  let at = -1;
  const number = (value) => String(Number(value.toPrecision(6)));
  const nearest = (points, x) => points.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a));
  const show = (index) => {
    at = Math.max(0, Math.min(xs.length - 1, index));
    const x = xs[at];
    const place = left + ((x - low) / (high - low)) * (right - left);
    cross.setAttribute("x1", place);
    cross.setAttribute("x2", place);
    svg.append(cross);
    const values = data.series.map((one) => {
      const point = nearest(one.points, x);
      return one.name + " " + number(point[1]) + (point[0] === x ? "" : " (at " + number(point[0]) + ")");
    });
    words.textContent = data.x + " " + number(x) + ": " + values.join(" · ");
  };
  const hide = () => {
    cross.remove();
    words.textContent = "";
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const x = low + ((place - left) / (right - left)) * (high - low);
    const index = xs.findIndex((value) => value >= x);
    const last = index < 0 ? xs.length - 1 : index;
    show(last > 0 && x - xs[last - 1] < xs[last] - x ? last - 1 : last);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity };
    if (!(event.key in steps)) return;
    event.preventDefault();
    show(at + steps[event.key]);
  });
}
