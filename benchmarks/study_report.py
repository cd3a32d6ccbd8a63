def write(kept, pages):
    pass
