-- What try.sh runs in Neovim: opens a wrong policy and prints what server and editor make of it.
local policy = [==[
[link]
rate = "20 Mbit/s"
scheduler = "htb"

[class.line]
rate = "20 Mbit/s"

[class.voice]
parent = "line"
share = "15 %"
ceil = "90 Mbit/s"
match = { dscp = "ef" }

[class.rest]
parent = "line"
rate = "10 Mbit/s"
default = true

[[promise]]
that = "voice.rate > 1 Mbit/s"
under = "evening.toml"
]==]
local failed = false

local function check(what, is_right, found)
  local verdict = is_right and "ok      " or "FAILED  "
  print(verdict .. what .. ": " .. vim.inspect(found):gsub("%s+", " "))
  failed = failed or not is_right
end

local function text()
  return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
end

-- Moves the cursor to the byte behind `before` in the first line that has it.
local function go(before)
  for number, line in ipairs(vim.api.nvim_buf_get_lines(0, 0, -1, false)) do
    local _, last = line:find(before, 1, true)
    if last then
      vim.api.nvim_win_set_cursor(0, { number, last - 1 })
      return { number, last }
    end
  end
end

local function ask(method, more)
  local client = vim.lsp.get_clients({ bufnr = 0 })[1]
  local params = vim.lsp.util.make_position_params(0, client.offset_encoding)
  local answer = client:request_sync(method, vim.tbl_extend("force", params, more or {}), 10000, 0)
  return answer and answer.result
end

local path = vim.fn.tempname() .. ".toml"
vim.fn.writefile(vim.split(policy, "\n"), path)
vim.cmd.edit(path)
vim.wait(20000, function() return #vim.diagnostic.get(0) > 0 end, 20)
local found = vim.diagnostic.get(0)
check("diagnostics", #found == 1 and found[1].code == "W143", vim.tbl_map(function(one)
  return ("line %d: %s"):format(one.lnum + 1, one.message)
end, found))

go("that = \"voi")
vim.lsp.buf.definition()
vim.wait(10000, function() return vim.api.nvim_win_get_cursor(0)[1] == 8 end, 20)
local cursor = vim.api.nvim_win_get_cursor(0)
check("definition", cursor[1] == 8 and cursor[2] == 7, cursor)

vim.lsp.buf.rename("calls")
vim.wait(10000, function() return text():find("calls.rate", 1, true) end, 20)
check("rename", select(2, text():gsub("calls", "")) == 2 and not text():find("voice"), {
  vim.api.nvim_buf_get_lines(0, 7, 8, false)[1], vim.api.nvim_buf_get_lines(0, 19, 20, false)[1],
})

go("ceil = \"90 Mbit/s")
vim.lsp.buf.code_action({ apply = true })
vim.wait(10000, function() return text():find("20 Mbit/s\"\nmatch", 1, true) end, 20)
vim.wait(10000, function() return #vim.diagnostic.get(0) == 0 end, 20)
check("code action", #vim.diagnostic.get(0) == 0, vim.api.nvim_buf_get_lines(0, 10, 11, false))

vim.api.nvim_buf_set_lines(0, 2, 3, false, { "scheduler = \"h" })
vim.api.nvim_win_set_cursor(0, { 3, 13 })
local place = ask("textDocument/completion", { position = { line = 2, character = 14 } })
local labels = vim.tbl_map(function(one) return one.label end, place or {})
check("completion", vim.tbl_contains(labels, "htb") and vim.tbl_contains(labels, "hfsc"), labels)
vim.api.nvim_buf_set_lines(0, 2, 3, false, { "scheduler = \"htb\"" })

go("share")
local hover = ask("textDocument/hover")
check("hover", hover and hover.contents.value:find("40 %", 1, true) ~= nil, hover and hover.contents.value)

local all = { start = { line = 0, character = 0 }, ["end"] = { line = 99, character = 0 } }
local hints = ask("textDocument/inlayHint", { range = all })
local words = vim.tbl_map(function(one) return one.label end, hints or {})
check("hints", vim.tbl_contains(words, "= 3.000 Mbit/s"), words)

local symbols = ask("textDocument/documentSymbol")
local line = symbols and symbols[2] or {}
check("outline", line.name == "line" and #(line.children or {}) == 2, vim.tbl_map(function(one)
  return one.name .. " " .. (one.detail or "")
end, line.children or {}))
vim.cmd(failed and "cquit 1" or "qall!")
