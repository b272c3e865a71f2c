"""The report about a cluster: one page that says what runs now, what happened, what comes next and what is wasted.

`live` is what is read of the cluster, `spending` and `happened` are what the record says, `ahead` is what comes, and
`advice` is what people can change. `document` and `page` write all of it as JSON and as HTML.
"""
