"""The page of ``tenon playground``: a server on loopback, and a process that plans and draws.

`server` bounds what it reads and refuses pages of others, `form` reads what a browser sends, `plan_process` starts and
ends the process, in which `planning` plans and `drawing` draws.
"""
