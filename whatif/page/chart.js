'use strict';
for (const figure of document.querySelectorAll('figure[data-points]')) {
  const points = JSON.parse(figure.dataset.points);
  const { total, keys, window } = figure.dataset;
  const slider = figure.querySelector('input');
  const mark = figure.querySelector('.mark');
  const output = figure.querySelector('output');
  const number = (n) => Number(n).toLocaleString('en');
  const share = (n, of) => {
    const p = (100 * n) / Math.max(1, of);
    return `${p > 0 && p < 0.01 ? '< 0.01' : p.toFixed(p >= 10 ? 1 : p > 0 ? 2 : 0)} %`;
  };
  const most = Math.log(points.at(-1)[0]) || 1;
  const position = ([limit]) => (100 * Math.log(limit)) / most;
  const show = () => {
    const distance = (p) => Math.abs(position(p) - slider.value);
    const nearest = points.reduce((best, p) => (distance(p) < distance(best) ? p : best));
    const [limit, blocked, touched] = nearest;
    mark.style.left = `${position(nearest)}%`;
    const said = `${number(limit)} per ${window} blocks ${number(blocked)} of ${number(total)} (${share(blocked, total)}), of ${number(touched)} of ${number(keys)} ${keys === "1" ? "key" : "keys"}`;
    output.textContent = said;
    slider.setAttribute('aria-valuetext', said);
  };
  slider.value = position([figure.dataset.limit]);
  slider.addEventListener('input', show);
  figure.querySelector('.try').hidden = false;
  show();
}
