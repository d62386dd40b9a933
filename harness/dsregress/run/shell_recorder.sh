# Read by each bash that `shell_launches` starts (BASH_ENV). PATH has stand-ins for launchers, and harmless tools alone.

PATH=$DSREGRESS_RECORDER/commands
RANDOM=1

# A script may set PATH for its author's machine: before each command it is what it was.
set -o functrace
trap 'PATH=$DSREGRESS_RECORDER/commands' DEBUG

# What is not there, such as pip, conda and srun, does nothing, and succeeds; its name is kept for the message.
command_not_found_handle() {
    printf '%s\n' "$1" >>"$DSREGRESS_RECORDER/left_out"
}

# The builtin looks for files alone.
exec() {
    [ $# -eq 0 ] && return
    "$@"
    exit
}
