# Updates the table of rooms in docs/explanation/design.md from src/rooms: awk -f rooms.awk src/rooms docs/explanation/design.md
FILENAME ~ /rooms$/ {
    if (/^[^#^]/ && split($0, part, / \| */) == 3)
        table = table "| `" part[1] "/` | " part[3] " |\n"
    else if (/^\^/ && split(substr($0, 3), part, / \| */) == 3)
        up = up "| `" part[1] "/` includes `" part[2] "` | upward: " part[3] " |\n"
    next
}
/^<!-- end of rooms -->/ { inside = 0 }
!inside { print }
/^<!-- rooms:/ {
    inside = 1
    printf "| room | offers |\n|---|---|\n%s%s", table, up
}
