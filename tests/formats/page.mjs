// Drives the page of `qm report --html` in headless Chromium over its debugging pipe: no error, no overflow, text in its size, every
// control by keyboard, and axe-core without a finding, light and dark, at several widths.
//
//   node page.mjs BROWSER PAGE PROFILE AXE [PICTURES]    AXE: axe.min.js, or - for without; PICTURES: a folder for screenshots
//
// Prints a line for each thing that is wrong, and `checked N` at the end; status 0 iff nothing is wrong.

import {spawn} from "node:child_process";
import {readFileSync, writeFileSync} from "node:fs";

const [browser, page, profile, axe, pictures] = process.argv.slice(2);
const child = spawn(browser, ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", `--user-data-dir=${profile}`, "about:blank"],
                    {stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"]});
let session, next = 0, rest = "", wrong = 0, checked = 0, phase = "";
const waiting = new Map(), listeners = [];
child.stdio[4].on("data", data => {
  const parts = (rest + data).split("\0");
  rest = parts.pop();
  for (const part of parts) {
    const message = JSON.parse(part);
    if (message.id !== undefined) { waiting.get(message.id)(message); waiting.delete(message.id); }
    else for (const listener of listeners) listener(message);
  }
});
function send(method, params = {}) {
  const id = ++next;
  child.stdio[3].write(JSON.stringify({id, method, params, ...(session ? {sessionId: session} : {})}) + "\0");
  return new Promise((resolve, reject) => waiting.set(id, message => message.error ? reject(new Error(`${method}: ${message.error.message}`)) : resolve(message.result)));
}
async function evaluate(expression) {
  const {result, exceptionDetails} = await send("Runtime.evaluate", {expression, awaitPromise: true, returnByValue: true});
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
  return result.value;
}
function check(holds, claim) {
  ++checked;
  if (holds) return;
  ++wrong;
  console.log(`${phase}: ${claim}`);
}
async function press(key, code = key, text) {
  const virtual = {Enter: 13, " ": 32, Tab: 9, Escape: 27, ArrowUp: 38, ArrowDown: 40, ArrowLeft: 37, ArrowRight: 39}[key];
  const params = {key, code, windowsVirtualKeyCode: virtual, ...(text ? {text} : {})};
  await send("Input.dispatchKeyEvent", {type: "keyDown", ...params});
  await send("Input.dispatchKeyEvent", {type: "keyUp", ...params});
}
const enter = () => press("Enter", "Enter", "\r");

async function open(width, dark) {
  phase = `${width} px, ${dark ? "dark" : "light"}`;
  await send("Emulation.setDeviceMetricsOverride", {width, height: 900, deviceScaleFactor: 1, mobile: false});
  await send("Emulation.setEmulatedMedia", {features: [{name: "prefers-color-scheme", value: dark ? "dark" : "light"}]});
  const loaded = new Promise(resolve => listeners.push(message => message.method === "Page.loadEventFired" && resolve()));
  await send("Page.navigate", {url: "file://" + page});
  await loaded;
  await evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
}

async function look() {
  check(await evaluate("document.body.dataset.ready") === "yes", "the script did not run to its end");
  check(await evaluate("document.documentElement.scrollWidth <= innerWidth"), `the page is ${await evaluate("document.documentElement.scrollWidth")} px wide`);
  const leaks = await evaluate("document.getElementById('leaks').getBoundingClientRect().top + scrollY");
  check(leaks < 480, `the leaks begin at ${leaks} px`);
  // Nothing but what scrolls by itself, and is reached by Tab, has more than its place.
  const wide = await evaluate(`[...document.querySelectorAll("main *")].filter(each => !each.closest(".wide, svg") && each.getBoundingClientRect().right > innerWidth + 1)
    .map(each => each.tagName + "#" + each.id)`);
  check(wide.length === 0, "past the edge: " + wide);
  const scaled = await evaluate(`[...document.querySelectorAll("svg text")].filter(each => Math.abs(each.getScreenCTM().a - 1) > 0.02).length`);
  check(scaled === 0, `${scaled} texts are scaled`);
  const small = await evaluate(`[...document.querySelectorAll("main *")].filter(each => each.childNodes.length && [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim()) &&
    parseFloat(getComputedStyle(each).fontSize) < 12).length`);
  check(small === 0, `${small} texts are smaller than 12 px`);
}

/// Every button, field and region is reached by Tab, and each button does with Enter what a click does.
async function useKeyboard() {
  const controls = await evaluate(`(() => { window.all = [...document.querySelectorAll("main button, main input, main .wide")].filter(each => each.offsetParent); return all.length; })()`);
  await evaluate("document.activeElement.blur(), scrollTo(0, 0)");
  const reached = new Set();
  let flame = false;
  for (let steps = 0; steps < controls + 8; ++steps) {
    await press("Tab");
    reached.add(await evaluate("all.indexOf(document.activeElement)"));
    flame = flame || await evaluate("!!document.activeElement.closest('#flame')");
  }
  for (let at = 0; at < controls; ++at) check(reached.has(at), "Tab does not reach " + await evaluate(`all[${at}].outerHTML.slice(0, 80)`));
  check(flame, "Tab does not reach the flame graph");
  for (const id of ["flame-choice", "time-choice", "map-choice", "columns-choice"]) {
    const count = await evaluate(`document.querySelectorAll("#${id} button").length`);
    for (let at = count - 1; at >= 0; --at) {
      await evaluate(`document.querySelectorAll("#${id} button")[${at}].focus()`);
      await enter();
      check(await evaluate(`document.querySelectorAll("#${id} button")[${at}].getAttribute("aria-pressed")`) === "true", `Enter does not press ${id} ${at}`);
    }
  }
  for (const id of ["leaks", "sites", "caches", "harts"]) {
    await evaluate(`document.querySelector("#${id} th button").focus()`);
    await enter();
    const first = await evaluate(`document.querySelector("#${id} th").getAttribute("aria-sort")`);
    await enter();
    const second = await evaluate(`document.querySelector("#${id} th").getAttribute("aria-sort")`);
    check(first === "ascending" && second === "descending", `Enter does not sort ${id}: ${first}, ${second}`);
    check(await evaluate(`document.querySelectorAll("#${id} th[aria-sort]").length`) === 1, `${id} is sorted by one column`);
  }
  await evaluate(`document.querySelector("#flame [tabindex='0']").focus()`);
  const root = await evaluate("document.activeElement.dataset.name");
  await press("ArrowUp");
  const child = await evaluate("document.activeElement.dataset.name");
  check(root === "all" && child !== "all", `ArrowUp goes from ${root} to ${child}`);
  check((await evaluate("document.getElementById('flame-said').textContent")).startsWith(child + ":"), "the frame in focus is not said");
  await enter();
  const width = await evaluate("document.activeElement.querySelector('rect').getAttribute('width') / document.querySelector('#flame svg').clientWidth");
  check(width > 0.95, `Enter widens a frame to ${width}`);
  await press("Escape");
  check(await evaluate("document.activeElement.dataset.name") === "all", "Escape shows all again");
}

async function audit() {
  if (axe === "-") return;
  await evaluate(readFileSync(axe, "utf8") + ";0");
  const found = await evaluate(`axe.run(document, {resultTypes: ["violations"]}).then(result => result.violations.map(each =>
    each.id + ": " + each.help + ", " + each.nodes.length + " times, as " + each.nodes[0].html.slice(0, 120)))`);
  for (const each of found) check(false, "axe-core: " + each);
  ++checked;
}

const failed = setTimeout(() => { console.log("no end within 120 s"); child.kill("SIGKILL"); process.exit(1); }, 120000);
try {
  const {targetInfos} = await send("Target.getTargets");
  const {sessionId} = await send("Target.attachToTarget", {targetId: targetInfos.find(each => each.type === "page").targetId, flatten: true});
  session = sessionId;
  for (const domain of ["Page", "Runtime", "Log"]) await send(domain + ".enable");
  listeners.push(message => {
    if (message.method === "Runtime.exceptionThrown") check(false, message.params.exceptionDetails.exception?.description || message.params.exceptionDetails.text);
    if (message.method === "Runtime.consoleAPICalled" && message.params.type === "error") check(false, "console: " + message.params.args[0]?.value);
    if (message.method === "Log.entryAdded" && message.params.entry.level === "error") check(false, "log: " + message.params.entry.text);
  });
  for (const dark of [false, true]) {
    for (const width of [390, 600, 1400]) {
      await open(width, dark);
      await look();
      if (pictures) {
        const {data} = await send("Page.captureScreenshot", {format: "png", captureBeyondViewport: true, clip: {x: 0, y: 0, width, height: 1450, scale: 1}});
        writeFileSync(`${pictures}/report-${width}-${dark ? "dark" : "light"}.png`, Buffer.from(data, "base64"));
      }
      if (width !== 600) await audit();
      if (width === 390 && !dark) await useKeyboard();
    }
  }
} catch (error) {
  check(false, error.message);
}
clearTimeout(failed);
child.kill();
console.log(`checked ${checked}`);
process.exit(wrong === 0 ? 0 : 1);
