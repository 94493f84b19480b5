"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (selector) => document.querySelector(selector);
const make = (name, text, className) => {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
};
const number = (value, digits = 3) => (value === null || value === undefined ? "—" : +value.toFixed(digits) + "");

$("h1").textContent = data.title;
for (const [name, value] of data.facts) {
  const pair = make("div");
  pair.append(make("dt", name), make("dd", value));
  $("#facts").append(pair);
}
for (const [name, text] of data.texts) $("#texts").append(make("h2", name), make("pre", text));

const root = $("#calls");
const advantage = data.advantage ?? 0;
root.style.setProperty("--sign", advantage < 0 ? "var(--bad)" : "var(--good)");
root.style.setProperty("--size", Math.min(100, Math.abs(advantage) * 50) + "%");
$("#key").style.cssText = root.style.cssText;

// A call's own tokens: what is new in its prompt, then what was sampled. History stands with an earlier call.
const calls = data.calls.map((call, index) => {
  const ids = call.prompt.concat(call.completion);
  const pieces = ids.map((id) => data.pieces[id] ?? "�");
  const box = make("details");
  const history = call.after === null ? "" : `, after ${call.kept} tokens that call ${call.after + 1} has`;
  const about = `${call.prompt.length} prompt and ${call.completion.length} sampled tokens${history}`;
  const more = [call.finish, `weights ${call.version}`, `${number(call.seconds, 2)} s`].join(", ");
  const head = make("summary", `Call ${index + 1}${call.agent ? " of " + call.agent : ""} `);
  head.append(make("span", `${about}; ${more}`, "soft"));
  const tokens = make("div", undefined, "tokens");
  box.append(head, tokens);
  root.append(box);
  return { ...call, ids, pieces, box, tokens, text: null, isDrawn: false };
});

function draw(call) {
  if (call.isDrawn) return;
  call.isDrawn = true;
  const all = document.createDocumentFragment(), before = call.prompt.length;
  call.ids.forEach((id, place) => {
    const node = make("span", call.pieces[place]);
    let name = "p";
    if (place >= before) {
      const logprob = call.logprobs[place - before];
      name = "s h" + (logprob === undefined ? 0 : Math.min(9, Math.floor((1 - Math.exp(logprob)) * 10)));
    }
    if (id < 0) name += " x";
    if (call.pieces[place].startsWith("\n")) name += " n";
    node.className = name;
    all.append(node);
  });
  call.tokens.append(all);
}
calls.forEach((call, index) => {
  call.box.addEventListener("toggle", () => call.box.open && draw(call));
  if (calls.length < 5 || index === 0 || index === calls.length - 1) {
    draw(call);
    call.box.open = true;
  }
});
$("#all").addEventListener("click", () => {
  const opens = calls.some((call) => !call.box.open);
  for (const call of calls) {
    if (opens) draw(call);
    call.box.open = opens;
  }
  $("#all").textContent = opens ? "fold all" : "unfold all";
});

const sample = (text, className, style = "") => {
  const node = make("i", undefined, className);
  node.style.cssText = style;
  return [node, text];
};
const keys = {
  mask: () => [...sample("prompt", ""), ...sample("sampled", "sampled")],
  logprob: () => [...sample("likely", "heat", "--h: 0"), ...sample("p = 0.5", "heat", "--h: 5"), ...sample("unlikely", "heat", "--h: 9")],
  advantage: () => (data.advantage === null ? [" this episode was not trained on"] : sample(`${number(advantage, 4)}, all sampled tokens of the episode`, "adv")),
};
function colour(by) {
  root.className = by;
  $("#key").replaceChildren(...keys[by]());
}
for (const radio of document.querySelectorAll("input[name=by]")) radio.addEventListener("change", () => colour(radio.value));
colour("mask");

const tip = $("#tip");
root.addEventListener("pointerover", (event) => {
  const call = calls.find((each) => each.tokens === event.target.parentNode);
  if (!call) return void (tip.style.display = "none");
  const place = Array.prototype.indexOf.call(call.tokens.childNodes, event.target);
  const sampled = place - call.prompt.length;
  const id = call.ids[place] < 0 ? "masked" : call.ids[place];
  const lines = [`${JSON.stringify(call.pieces[place])}   id ${id}`];
  if (sampled < 0) lines.push("prompt");
  else {
    const logprob = call.logprobs[sampled];
    lines.push(`logprob ${number(logprob, 4)}   p ${logprob === undefined ? "—" : number(Math.exp(logprob), 4)}`);
    lines.push(`advantage ${number(data.advantage, 4)}`);
  }
  tip.textContent = lines.join("\n");
  tip.style.display = "block";
  const at = event.target.getBoundingClientRect(), size = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(at.left, innerWidth - size.width - 8)) + "px";
  tip.style.top = (at.bottom + size.height + 6 > innerHeight ? at.top - size.height - 4 : at.bottom + 4) + "px";
});
root.addEventListener("pointerleave", () => (tip.style.display = "none"));

let hits = [], current = -1;
function tokensOf(call, start, end) {
  let low = 0, high = call.ends.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (call.ends[middle] > start) high = middle;
    else low = middle + 1;
  }
  let last = low;
  while (last + 1 < call.ends.length && call.ends[last] < end) last++;
  return [low, last];
}
function find(words) {
  for (const node of root.querySelectorAll(".hit")) node.classList.remove("hit", "now");
  hits = [];
  current = -1;
  for (const call of words ? calls : []) {
    if (call.text === null) {
      let end = 0;
      call.ends = call.pieces.map((piece) => (end += piece.length));
      call.text = call.pieces.join("").toLowerCase();
      if (call.text.length !== end) call.text = call.pieces.join("");  // lower case can be longer
    }
    for (let at = call.text.indexOf(words); at >= 0 && hits.length < 2000; at = call.text.indexOf(words, at + words.length))
      hits.push({ call, range: tokensOf(call, at, at + words.length) });
  }
  for (const hit of hits) {
    draw(hit.call);
    mark(hit, "hit", true);
  }
  step(1);
  if (!words) $("#found").textContent = "";
}
function mark(hit, name, isOn) {
  for (let place = hit.range[0]; place <= hit.range[1]; place++) hit.call.tokens.childNodes[place].classList.toggle(name, isOn);
}
function step(by) {
  if (current >= 0) mark(hits[current], "now", false);
  $("#found").textContent = hits.length ? "" : "not found";
  if (!hits.length) return;
  current = (current + by + hits.length) % hits.length;
  const hit = hits[current];
  hit.call.box.open = true;
  mark(hit, "now", true);
  hit.call.tokens.childNodes[hit.range[0]].scrollIntoView({ block: "center" });
  $("#found").textContent = `${current + 1} of ${hits.length}${hits.length === 2000 ? " or more" : ""}`;
}
const box = $("input[type=search]");
let waiting = 0;
box.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => find(box.value.toLowerCase()), 120);
});
box.addEventListener("keydown", (event) => {
  if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
});
