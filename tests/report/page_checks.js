// Functions that look at a rendered report; each returns a list of what is wrong with it.
window.checks = (() => {
  const box = (element) => element.getBoundingClientRect();
  const name = (element) =>
    `${element.tagName.toLowerCase()}${element.id ? "#" + element.id : ""}` +
    ` "${element.textContent.trim().replace(/\s+/g, " ").slice(0, 40)}"`;
  const shown = (element) => element.checkVisibility() && !element.closest(".unseen");
  const all = (selector, root = document) => [...root.querySelectorAll(selector)].filter(shown);
  const overlap = (a, b, slack) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > slack &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > slack;

  const wider = () =>
    all("body *")
      .filter((e) => !e.closest(".scroll table, .scroll pre, svg") && box(e).width > 0)
      .filter((e) => box(e).right > innerWidth + 0.5 || box(e).left < -0.5)
      .map(name);

  const flat = () =>
    ["header", "nav", ...[...document.querySelectorAll("section")].map((s) => "#" + s.id)].filter((selector) => {
      const element = document.querySelector(selector);
      return !element || !shown(element) || box(element).height < 100 || box(element).width < 150;
    });

  const figures = (smallest) => {
    const wrong = [];
    for (const svg of all("figure svg")) {
      const frame = box(svg), scale = svg.getScreenCTM().a;
      if (frame.width < 250 || frame.height < 150) wrong.push(`${frame.width} x ${frame.height}`);
      const texts = [...svg.querySelectorAll("text")].map((e) => [e.textContent, box(e), e]);
      if (texts.length < 5) wrong.push("figure without text");
      texts.forEach(([words, rect, element], i) => {
        const size = parseFloat(getComputedStyle(element).fontSize) * scale;
        if (size < smallest) wrong.push(`"${words}" is ${size.toFixed(1)} px`);
        if (rect.left < frame.left - 1 || rect.right > frame.right + 1) wrong.push(`"${words}" is cut off`);
        if (rect.top < frame.top - 1 || rect.bottom > frame.bottom + 1) wrong.push(`"${words}" is cut off`);
        texts.slice(i + 1).forEach(([other, rival]) => {
          if (overlap(rect, rival, 1)) wrong.push(`"${words}" covers "${other}"`);
        });
      });
    }
    return wrong;
  };

  // Cells of a table and blocks of a section stand beside or below one another, never on one another.
  const covered = () => {
    const groups = [
      all("header > *"),
      ...all("section").map((s) => all(":scope > *", s)),
      ...all("tr").map((r) => all(":scope > *", r)),
      all(".figures > div"),
      all("nav li"),
    ];
    return groups.flatMap((group) =>
      group.flatMap((a, i) =>
        group.slice(i + 1).filter((b) => overlap(box(a), box(b), 1)).map((b) => `${name(a)} covers ${name(b)}`)
      )
    );
  };

  // Text must fit the box it is in, unless that box scrolls.
  const spilled = () =>
    all("h1, h2, h3, h4, p, dt, dd, li, th, td, figcaption, .badge")
      .filter((e) => e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0)
      .map((e) => `${name(e)} ${e.scrollWidth} > ${e.clientWidth}`);

  const stuck = () =>
    all(".scroll")
      .filter((e) => e.scrollWidth > e.clientWidth + 1)
      .filter((e) => e.tabIndex !== 0 || getComputedStyle(e).overflowX !== "auto" || !e.ariaLabel)
      .map(name);

  // Colours as the browser has them, from "rgb(1, 2, 3)" or "rgb(1 2 3 / 0.4)".
  const rgba = (text) => {
    const parts = text.match(/[\d.]+/g).map(Number);
    return [...parts.slice(0, 3), parts.length > 3 ? parts[3] : 1];
  };
  const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
  const luminance = (rgb) =>
    rgb
      .map((v) => v / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
      .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const background = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.push(rgba(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const faint = (least) => {
    const wrong = [];
    for (const element of all("body *")) {
      if (![...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
      const style = getComputedStyle(element), below = background(element);
      const ink = over(rgba(element.closest("svg") ? style.fill : style.color), below);
      const [high, low] = [luminance(ink), luminance(below)].sort((a, b) => b - a);
      const ratio = (high + 0.05) / (low + 0.05);
      if (ratio < least) wrong.push(`${name(element)} ${ratio.toFixed(2)}`);
    }
    return wrong;
  };

  const regions = () =>
    Object.fromEntries(
      [document.querySelector("header"), ...document.querySelectorAll("section")].map((e) => [
        e.id,
        [box(e).left + scrollX, box(e).top + scrollY, box(e).width, box(e).height],
      ])
    );
  return { wider, flat, figures, covered, spilled, stuck, faint, regions };
})();
