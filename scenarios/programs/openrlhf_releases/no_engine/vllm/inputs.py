class TokensPrompt:
    pass
