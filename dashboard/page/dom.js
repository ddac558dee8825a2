// Elements, made and changed so that nothing from the server is ever read as markup:
// text goes in as text, and attributes are set by name.

const svgSpace = "http://www.w3.org/2000/svg";

/** el makes an element. In props, class, text and on* are special; null and false are left out. */
export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** svg makes an element of SVG. */
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(svgSpace, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** setText changes the text of a node only if it is another: most figures stay from second to second. */
export function setText(node, text) {
  if (node.shown === text) return;
  node.shown = text;
  const { firstChild: only } = node;
  if (only?.nodeType === 3 && only === node.lastChild) only.data = text; // costs less than another node
  else node.textContent = text;
}

/** setAttr does so for an attribute; null takes it away. */
export function setAttr(node, name, value) {
  if (value === null) {
    if (node.hasAttribute(name)) node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value)) {
    node.setAttribute(name, value);
  }
}

const most = 300;

/** shown returns what a person can take in of a text of any length and content. The rest of it is
 * no use in a title either. Control characters, and those that turn the direction of the text
 * around, are made visible. */
export function shown(text) {
  const clean = text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, (c) => {
    if (c === "\n") return "⏎";
    return c < " " ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : "�";
  });
  const runes = clean.length > most ? [...clean.slice(0, 2 * most)] : null;
  return runes && runes.length > most ? runes.slice(0, most).join("") + "…" : clean;
}
