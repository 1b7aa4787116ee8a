# SPDX-License-Identifier: GPL-2.0
# The entry for people: `make help`. What goes into the module is in Kbuild.
VERSION := 0.1

KDIR ?= /lib/modules/$(shell uname -r)/build
vm := selftests/vm

export KERNEL MEM TIMEOUT SHARE NOMODULE CMD T S OUT

# One goal for each call of the kernel's make: with two, the one of 7.3 overwrites this file.
module:
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

help:
	@echo 'make                   build softhca.ko for the running kernel, or for that of KDIR='
	@echo 'make install           install it for that kernel, by DKMS where that exists; needs root'
	@echo 'make check             all tests; T=NAME picks kselftests by name, KERNEL=7.3|6.12|debug|kcsan one kernel'
	@echo 'make unit              the unit tests, without a VM; T=PATTERN picks some'
	@echo 'make fuzz T=umr S=60   fuzz a parser of the HCA half for 60 seconds; T=umr, klm, wqe or cmd'
	@echo 'make lint              warnings, sparse, checkpatch, shellcheck'
	@echo 'make demo              the stock RDMA programs on softhca, in a VM'
	@echo 'make bench             the benchmarks, in a VM: a table and pictures; OUT=folder keeps them'
	@echo 'make vm CMD="…"        run a command in a VM with softhca loaded; KERNEL= MEM= TIMEOUT= SHARE=folder NOMODULE=1'
	@echo 'make clean             remove what make built here'
	@echo
	@echo 'Tests need root on Debian 12 or 13 and mmdebstrap. The guest is kept in SOFTHCA_CACHE (/var/cache/softhca).'

vm:
	@[ -n "$$CMD" ] || { echo 'make vm CMD="a command for the guest"' >&2; exit 2; }
	@$(vm)/vm "$$CMD"

check:
	@$(vm)/check

unit:
	@$(vm)/unit

fuzz:
	@$(vm)/fuzz

lint:
	@scripts/lint

demo:
	@$(vm)/payload-run ./demo-guest

bench:
	@$(vm)/bench

install:
	@VERSION=$(VERSION) KDIR=$(KDIR) scripts/install

clean:
	$(MAKE) -C $(KDIR) M=$(CURDIR) clean

.PHONY: module help vm check unit fuzz lint demo bench install clean
