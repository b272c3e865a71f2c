"""Parts of the pages that Tenon writes: each page is one file of HTML that loads nothing and needs no script.

`markup` escapes every text, `style` has the colors and rules of all pages, `packed_bar` draws what fills a node, and
`charts` draws figures over time.
"""
