#!{bash}
nodes=
while [ $# -gt 0 ]; do
    case $1 in
    --nodes=*) nodes=${{1#*=}} && shift ;;
    -N | --nodes) nodes=$2 && shift 2 ;;
    --*=*) shift ;;
    # Those without a value; of one that may have a value it is given by `=`.
    -[EHkOQuvlsXZ] | --label | --unbuffered | --overlap | --pty | --exclusive | --exact | --no-kill | --quiet | --verbose | --overcommit | --oversubscribe | --multi-prog | --immediate | --hold | --contiguous | --preserve-env | --disable-status | --requeue | --no-requeue | --wait-all-nodes | --spread-job | --wait | --use-min-nodes | --parsable) shift ;;
    --* | -?) shift 2 ;;
    -*) shift ;;
    *) break ;;
    esac
done
# The first task of a job, with as many nodes as its options or its script ask for.
if [ -z "${{SLURM_JOB_ID-}}" ] && [ $# -gt 0 ]; then
    if [ -z "$nodes" ] && [ -f "$1" ]; then
        nodes=$(sed -n 's/^#SBATCH  *\(--nodes[= ]\|-N\) *\([0-9][0-9]*\).*/\2/p' "$1" | head -n 1)
    fi
    nodes=${{nodes%%-*}}
    export SLURM_JOB_ID=1 SLURM_JOBID=1 SLURM_JOB_NAME=job SLURM_SUBMIT_DIR=$PWD SLURM_NODEID=0 SLURM_PROCID=0 SLURM_LOCALID=0
    export SLURM_NNODES=${{nodes:-1}} SLURM_JOB_NUM_NODES=${{nodes:-1}} SLURM_JOB_NODELIST=localhost SLURM_NODELIST=localhost
fi
exec {start}"$@"
