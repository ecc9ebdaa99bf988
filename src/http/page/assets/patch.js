// Brings what is shown up to date in place: only what differs is touched, so that marked text, the focus and the place of a
// scrolled list stay.

/**
 * Makes `from` what `to` is; gives the node that is there now. Handlers of `to` are not taken over: what is filled in anew has no
 * onclick, it says in data-do what it does, and one listener of the box does that.
 */
export function patch(from, to) {
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName || from.dataset?.id !== to.dataset?.id) {
    from.replaceWith(to);
    return to;
  }
  if (from.nodeType === Node.TEXT_NODE) {
    if (from.data !== to.data) from.data = to.data;
    return from;
  }
  attributes(from, to);
  // What the reader typed or chose is theirs, and what a handler said stays until it says something else.
  if (!from.matches("input, select, textarea, [data-keep]")) fill(from, [...to.childNodes]);
  return from;
}

/** Makes these the children of a node. */
export function fill(box, children) {
  const nodes = children.filter((child) => child !== null && child !== undefined && child !== false && child !== "")
    .map((child) => (child instanceof Node ? child : document.createTextNode(child)));
  const had = [...box.childNodes];
  nodes.forEach((node, at) => {
    if (!had[at]) box.append(node);
    else if (had[at] !== node) patch(had[at], node);
  });
  had.slice(nodes.length).forEach((node) => node.remove());
}

function attributes(from, to) {
  for (const { name } of [...from.attributes]) if (name !== "style" && name !== "open" && !to.hasAttribute(name)) from.removeAttribute(name);
  for (const { name, value } of to.attributes) if (name !== "style" && from.getAttribute(name) !== value) from.setAttribute(name, value);
  // As an attribute the policy of the page refuses it.
  if (from.style.cssText !== to.style.cssText) from.style.cssText = to.style.cssText;
}
