-- For ~/.config/nvim/init.lua: starts `weir lsp` for TOML files. Neovim 0.10 or later.
vim.api.nvim_create_autocmd("FileType", {
  pattern = "toml",
  callback = function(event)
    vim.lsp.start({
      name = "weir",
      cmd = { "weir", "lsp" },
      root_dir = vim.fs.dirname(vim.api.nvim_buf_get_name(event.buf)),
    })
    vim.lsp.inlay_hint.enable(true, { bufnr = event.buf })
  end,
})
