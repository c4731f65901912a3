# What differs from site to site, and nothing else: the one file here to change. Every job script reads it.
#
# What the environment gives goes first: LAUNCHER=srun sbatch slurm/train_cpu.sbatch

# The modules that phalanx was built with; their names differ from site to site.
#module load openmpi hdf5 openblas

# The program, and where runs are written: both where every node sees them.
PHALANX=${PHALANX:-target/release/phalanx}
RUNS=${RUNS:-runs}

# What starts ranks: mpirun inside the allocation, of the MPI that phalanx was built with; or srun, where `srun --mpi=list` shows
# pmix. With MPICH: (mpiexec) and (srun --mpi=pmi2).
LAUNCHER=${LAUNCHER:-mpirun}
case $LAUNCHER in
    mpirun) start=(mpirun) ;;
    srun) start=(srun --mpi=pmix) ;;
esac

# Open MPI, which alone reads these. Windows between nodes, which Debian's settings leave to nobody: by messages over TCP.
export OMPI_MCA_osc=${OMPI_MCA_osc:-^ucx}
# Or by UCX, which InfiniBand wants:
#export OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx,sm OMPI_MCA_opal_common_ucx_tls=any OMPI_MCA_opal_common_ucx_devices=any
# The network between nodes, where they have several:
#export OMPI_MCA_btl_tcp_if_include=ib0
# Ranks that wait let others have their core where a node has more ranks than cores; Open MPI does not notice that under Slurm.
cores=$(lscpu --parse=CORE,SOCKET | grep -v '^#' | sort -u | wc -l)
if [ "${SLURM_TASKS_PER_NODE%%[(,]*}" -gt "$cores" ]; then
    export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}
fi
