"""Every word a user reads, in pt-BR and en: one TOML file a language."""
