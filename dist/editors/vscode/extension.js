// Starts `weir lsp` for TOML files; files of other programs are none of its business, and it says
// nothing of them.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const command = workspace.getConfiguration("weir").get("command");
  const server = { command, args: ["lsp"] };
  const files = [
    { scheme: "file", language: "toml" },
    { scheme: "untitled", language: "toml" },
  ];
  client = new LanguageClient("weir", "Weir", server, { documentSelector: files });
  return client.start();
};

exports.deactivate = () => client?.stop();
