"""Tables for notebooks."""
from html import escape


def table(title, header, rows):
    cells = lambda tag, row: "".join(f"<{tag} style='text-align:left'>{escape(str(cell))}</{tag}>" for cell in row)
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><tr>{cells('th', header)}</tr>{body}</table>"
