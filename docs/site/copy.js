// SPDX-License-Identifier: Apache-2.0
// A console's Copy button gives the commands, without prompts and without what they printed.
document.addEventListener("pointerover", (event) => {
  const button = event.target.closest?.("[data-clipboard-target]");
  const code = button && document.querySelector(button.dataset.clipboardTarget);
  if (!code?.querySelector(".gp")) return;
  const lines = [];
  let inCommand = false;
  for (const line of code.innerText.split("\n")) {
    if (line.startsWith("$ ") || line.startsWith("# ")) lines.push(line.slice(2));
    else if (inCommand) lines.push(line);
    else continue;
    inCommand = line.endsWith("\\");
  }
  button.dataset.clipboardText = lines.join("\n");
});
