# What every job script does with phalanx: starts it on the job's ranks, passes signals on, and queues the job again where that helps.
# Nothing here depends on the site: env.sh has that, and is read first.

# Times that a job which lost a rank or a node is queued again without having got further.
RETRIES=${RETRIES:-3}

step=  # the launcher that runs now
asked= # set once Slurm has announced that the job's time is nearly over
ended= # set once Slurm, or a user, wants the job to end

say() {
    echo "$(date '+%F %T') job $SLURM_JOB_ID: $*"
}

# USR1, because mpirun and srun pass it on to every rank and do nothing else with it: on TERM they would end the ranks.
pass_on() {
    [ -z "$step" ] || kill -USR1 "$step" 2> /dev/null
}

# No further signal may have a trap: of two that come at the same moment, as Slurm's CONT and USR1 do, bash 5.2 may lose one.
trap 'asked=yes; say "USR1: the end is near"; pass_on' USR1
trap 'ended=yes; say "TERM: the job has to end"; pass_on' TERM

# For what writes no checkpoints: USR1 would only end it sooner.
without_checkpoints() {
    trap 'say "USR1: the end is near, and what is done so far is not kept; with more --time it may be enough"' USR1
}

# on_ranks N WORDS: `phalanx WORDS` on N ranks; gives its exit code.
on_ranks() {
    local words=(-n "$1") code
    local per_node=${SLURM_NTASKS_PER_NODE:-1} threads=${SLURM_CPUS_PER_TASK:-1}
    if [ "$LAUNCHER" = srun ]; then
        # Fewer ranks go to the first nodes that have room, as with mpirun.
        [ "$1" -ge "$SLURM_NTASKS" ] || words+=(--nodes=$((($1 + per_node - 1) / per_node)))
        # Since Slurm 22.05 srun has to be told again.
        export SRUN_CPUS_PER_TASK=$threads
    elif [ "$threads" -gt 1 ]; then
        words+=(--map-by "slot:PE=$threads")
    fi
    shift
    "${start[@]}" "${words[@]}" "$PHALANX" "$@" &
    step=$!
    # A signal that came before there was anyone to tell.
    [ -z "$asked$ended" ] || pass_on
    # A signal ends `wait`, not what it waits for.
    while kill -0 "$step" 2> /dev/null; do
        wait "$step"
    done
    wait "$step"
    code=$?
    step=
    return "$code"
}

# The newest checkpoint of the run in folder $1.
newest() {
    local all=("$1"/checkpoints/step-*)
    [ ! -e "${all[-1]}" ] || echo "${all[-1]##*/}"
}

# train RUN WORDS: trains into the folder RUN, on from its newest checkpoint if it has one; ends the job.
train() {
    local run=$1 before
    shift
    before=$(newest "$run")
    say "start $((${SLURM_RESTART_COUNT:-0} + 1)) on $SLURM_JOB_NODELIST: $run${before:+ from $before}"
    on_ranks "$SLURM_NTASKS" train "$@" --out "$run" --continue --checkpoint-every "${CHECKPOINT:-10m}"
    finish $? "$before" "$(newest "$run")"
}

# finish CODE BEFORE AFTER: ends the job as phalanx ended, or queues it again; BEFORE and AFTER are its newest checkpoints.
finish() {
    local code=$1 before=$2 after=$3
    if [ "$code" = 0 ]; then
        say "done"
        exit 0
    elif [ -n "$ended" ]; then
        # Cancelled, or taken off its nodes by Slurm, which then queues it again by itself.
        say "ended with code $code${after:+ and checkpoint $after}"
        exit "$code"
    elif [ "$code" = 4 ]; then
        again "checkpoint $after is written"
    elif [ "$code" = 3 ] || [ "$code" -gt 128 ]; then
        # A rank that hung or was killed, a node that was lost.
        if [ "$after" != "$before" ] || [ "${SLURM_RESTART_COUNT:-0}" -lt "$RETRIES" ]; then
            again "a rank or node was lost (code $code)${after:+ after checkpoint $after}"
        fi
        say "a rank or node was lost (code $code) and the job does not get further"
    else
        say "failed with code $code: its message is above"
    fi
    exit "$code"
}

# Queues this very job again: the same number and the same run, which it then continues.
again() {
    say "$*: queued again"
    # That ends this shell.
    trap exit TERM
    if scontrol requeue "$SLURM_JOB_ID"; then
        sleep 600 &
        wait $!
    else
        say "Slurm does not queue it again; submit it with the same RUN to continue"
    fi
}
