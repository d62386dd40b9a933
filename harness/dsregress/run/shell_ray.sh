#!{bash}
# The command that `ray job submit OPTIONS -- COMMAND` submits; nothing else that ray does starts a program.
[ "${{1-}} ${{2-}}" = "job submit" ] || exit 0
while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done
shift
exec "$@"
