// A headless Chromium, driven through its pipe: node browser.js < VISITS
//
// VISITS is JSON: pages, each with a width and the steps that are taken there. It prints what each
// step `say` gave, and what went wrong.

const { spawn } = require("child_process");
const { mkdtempSync, rmSync, writeFileSync } = require("fs");
const { tmpdir } = require("os");
const { join } = require("path");

/** Chromium with a function that sends a command and gives its answer. */
function start() {
  const folder = mkdtempSync(join(tmpdir(), "chromium-"));
  const flags = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    `--user-data-dir=${folder}`,
  ];
  const browser = spawn("chromium", [...flags, "--remote-debugging-pipe"], {
    stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
  });
  const waiting = new Map();
  const complaints = [];
  let text = "";
  let last = 0;
  browser.stdio[4].on("data", (bytes) => {
    const messages = (text + bytes).split("\0");
    text = messages.pop();
    for (const message of messages.map((each) => JSON.parse(each))) {
      if (message.method === "Runtime.exceptionThrown") {
        complaints.push(message.params.exceptionDetails.exception?.description);
      } else if (message.method === "Network.requestWillBeSent") {
        complaints.push(message.params.request.url.slice(0, 100));
      } else if (message.id) {
        waiting.get(message.id)(message);
      }
    }
  });
  let sessionId;
  const send = (method, params = {}) =>
    new Promise((done, failed) => {
      last += 1;
      waiting.set(last, ({ result, error }) => (error ? failed(error.message) : done(result)));
      browser.stdio[3].write(`${JSON.stringify({ id: last, method, params, sessionId })}\0`);
    });
  const open = async () => {
    const { targetId } = await send("Target.createTarget", { url: "about:blank" });
    ({ sessionId } = await send("Target.attachToTarget", { targetId, flatten: true }));
    await send("Runtime.enable");
    await send("Page.enable");
    await send("Network.enable");
  };
  const close = async () => {
    sessionId = undefined;
    await send("Browser.close");
    await new Promise((done) => browser.on("exit", done));
    rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
  };
  return { send, open, close, complaints };
}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** Whatever a page loads from elsewhere, and each error, is a complaint. */
const isOwn = (complaint) => /^(about|file|blob|data):/.test(complaint);

async function main(visits) {
  const { send, open, close, complaints } = start();
  await open();

  const evaluate = async (expression) => {
    const asked = { expression, returnByValue: true, awaitPromise: true };
    return (await send("Runtime.evaluate", asked)).result.value;
  };
  const until = async (expression) => {
    for (let tries = 0; !(await evaluate(expression)); tries++) {
      if (tries === 300) {
        throw new Error(`never came true: ${expression}`);
      }
      await pause(100);
    }
  };
  /** A place by its shares of an element's width and height. */
  const place = async (selector, across, down) => {
    const [x, y, width, height] = await evaluate(`(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      element.scrollIntoView({ block: "nearest" });
      const { x, y, width, height } = element.getBoundingClientRect();
      return [x, y, width, height];
    })()`);
    return [x + across * width, y + down * height];
  };
  const mouse = (type, [x, y]) =>
    send("Input.dispatchMouseEvent", { type, x, y, button: "left", buttons: 1, clickCount: 1 });

  const said = [];
  const take = {
    until,
    say: async (expression) => said.push(await evaluate(expression)),
    click: async (selector, across = 0.5, down = 0.5) => {
      const at = await place(selector, across, down);
      await mouse("mousePressed", at);
      await mouse("mouseReleased", at);
    },
    tap: async (...given) => {
      const [x, y] = await place(...given);
      await send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: [{ x, y }] });
      await send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
    },
    press: async (...given) => mouse("mousePressed", await place(...given)),
    move: async (...given) => mouse("mouseMoved", await place(...given)),
    release: async (...given) => mouse("mouseReleased", await place(...given)),
    drag: async (selector, fromAcross, fromDown, toAcross, toDown) => {
      const from = await place(selector, fromAcross, fromDown);
      const to = await place(selector, toAcross, toDown);
      await mouse("mousePressed", from);
      await mouse("mouseMoved", [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2]);
      await mouse("mouseMoved", to);
      await mouse("mouseReleased", to);
    },
    key: async (key) => {
      const text = { Enter: { text: "\r" }, " ": { text: " " } }[key] ?? {};
      await send("Input.dispatchKeyEvent", { type: "keyDown", key, ...text });
      await send("Input.dispatchKeyEvent", { type: "keyUp", key });
    },
    shot: async (path) => {
      const { data } = await send("Page.captureScreenshot", { captureBeyondViewport: true });
      writeFileSync(path, data, "base64");
    },
  };
  for (const { page, width, scheme, steps } of visits) {
    const size = { width, height: 900, deviceScaleFactor: 1, mobile: width < 500 };
    await send("Emulation.setDeviceMetricsOverride", size);
    const features = [{ name: "prefers-color-scheme", value: scheme }];
    await send("Emulation.setEmulatedMedia", { features });
    await send("Page.navigate", { url: "about:blank" });
    await send("Page.navigate", { url: page });
    await until("document.readyState === 'complete'");
    for (const [kind, ...given] of steps) {
      await take[kind](...given);
    }
  }
  console.log(JSON.stringify({ said, complaints: complaints.filter((each) => !isOwn(each)) }));
  await close();
}

main(JSON.parse(require("fs").readFileSync(0, "utf8"))).catch((error) => {
  console.error(error);
  process.exit(1);
});
