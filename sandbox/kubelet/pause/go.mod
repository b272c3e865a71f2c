module tenon.sh/sandbox/pause

go 1.26.0
