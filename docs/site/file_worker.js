// SPDX-License-Identifier: Apache-2.0
// Search in pages that are opened as files: browsers start no Worker from file://, so a hidden
// frame takes its place. It has the part of Worker's interface that the search uses.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.inside = frame.contentWindow;
      window.addEventListener("message", (event) => {
        if (event.source !== this.inside) return;
        this.dispatchEvent(new MessageEvent("message", { data: event.data }));
        if (this.onmessage) this.onmessage(event);
      });
      this.ready = new Promise((done) => {
        this.inside.started = done;
      });
      this.inside.document.open();
      this.inside.document.write(
        `<script>
          window.postMessage = (data) => parent.postMessage(data, "*");
          window.importScripts = (...urls) => urls.reduce((before, url) => before.then(() =>
            new Promise((done) => {
              const script = document.createElement("script");
              script.src = url;
              script.onload = done;
              document.body.appendChild(script);
            })), Promise.resolve());
        <\/script>
        <body><script src="${url}" onload="started()"><\/script></body>`,
      );
      this.inside.document.close();
    }

    postMessage(data) {
      this.ready.then(() =>
        this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })),
      );
    }

    terminate() {}
  };
}
