// The band of a server that shows a moment of a flight: which moment, and a slider that moves it.

import { get, post } from "./api.js";
import { el } from "./format.js";

const PATH = "/api/v1/flight";
/** While the slider is moved, the moment follows so often. */
const EVERY = 200;

const day = (time) => `${time.slice(0, 19).replace("T", " ")} UTC`;

/** The band in this box. `moved` is called after each move. */
export function past(box, moved) {
  let shown = null;
  let wanted = null;
  let moving = false;
  let reading = false;
  let fault = "";

  const text = el("p", { role: "status" });
  const slider = el("input", {
    type: "range",
    step: "1",
    "aria-label": "Moment of the flight, by the number of its record",
    oninput: () => go(Number(slider.value)),
  });
  const back = el("button", { type: "button", onclick: () => go(shown.moment.index - 1) }, "Back");
  const on = el("button", { type: "button", onclick: () => go(shown.moment.index + 1) }, "On");

  function draw() {
    const { first, last, moment, rmID, redacted, differs } = shown;
    const names = redacted ? " Names are stand-ins." : "";
    const other = differs && differs <= moment.index ? ` From record ${differs} on this is not what happened: the rules have changed.` : "";
    text.textContent = `The past: ${day(moment.time)}, after record ${moment.index} of ${last.index} of ${rmID}. Nothing can be changed.${names}${other}${fault}`;
    slider.min = String(first.index);
    slider.max = String(last.index);
    if (!moving) slider.value = String(moment.index);
    slider.setAttribute("aria-valuetext", `record ${moment.index}, ${day(moment.time)}`);
    back.disabled = moment.index <= first.index;
    on.disabled = moment.index >= last.index;
    box.hidden = false;
  }

  async function go(index) {
    wanted = index;
    if (moving) return;
    moving = true;
    fault = "";
    try {
      while (wanted !== null) {
        const next = wanted;
        wanted = null;
        shown = await post(PATH, { index: next });
        draw();
        moved();
        await new Promise((done) => setTimeout(done, EVERY));
      }
    } catch (error) {
      wanted = null;
      fault = ` It was not moved: ${error.message}.`;
    } finally {
      moving = false;
      draw();
    }
  }

  return {
    /** The past is shown. */
    is: () => shown !== null,
    /** After which record. */
    at: () => shown?.moment.index,
    /** An answer said of which moment of the past it is: whoever moves it, moves it for all who look at this server. */
    async heard(at) {
      if (moving || reading || (shown && at.startsWith(`index=${shown.moment.index};`))) return;
      reading = true;
      try {
        const first = !shown;
        shown = await get(PATH);
        if (first) box.replaceChildren(text, el("div", {}, back, slider, on));
        draw();
        if (!first) moved();
      } finally {
        reading = false;
      }
    },
  };
}
