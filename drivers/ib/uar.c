// SPDX-License-Identifier: GPL-2.0
/*
 * UAR pages of user space: allocation, mapping, and noticing the stores.
 *
 * A UAR page has no PTE. A store to it faults, the fault handler tells the HCA
 * what was stored and advances the program past the store (doorbells.md). Where
 * that is not possible, the page is mapped for a while and the HCA looks at the
 * doorbell records instead.
 *
 * Invariants:
 *  - A shca_uar lives as long as its ioctl object or any VMA of it. Each VMA also
 *    holds a reference on the module, because an open uverbs file holds none.
 *  - hca_uar_store() and hca_uar_scan() are called only with uar->lock held for
 *    read and uar->dead clear; shca_uar_kill() returns when the last such call
 *    has. A dead UAR is an ordinary page: stores vanish, nothing is counted.
 *  - While a PTE may exist and the UAR is not dead, uar->poll is queued or running.
 *  - The inline execution of a doorbell holds neither mmap_lock nor a VMA lock.
 */
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched/task_stack.h>
#include <linux/uaccess.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <rdma/uverbs_std_types.h>

#include "shca.h"
#include "trap.h"

#define UVERBS_MODULE_NAME shca
#include <rdma/uverbs_named_ioctl.h>

/* mmap command of a UAR, which libmlx5 gives to nothing of its own (libmlx5-abi 2.4). */
#define SHCA_MMAP_CMD_UAR	9

/*
 * All files of a device node share one address space, in which a UAR is known by
 * its own page offset: out of reach of the offsets that programs can mmap.
 */
#define SHCA_UAR_PGOFF		BIT(44)

/* libmlx5 passes UAR numbers in 16-bit fields (libmlx5-abi 2.3). */
#define SHCA_UAR_MAX_ID		U16_MAX

/* A mapped UAR without news for so long goes back to being trapped. */
#define SHCA_UAR_IDLE_NS	(50 * NSEC_PER_USEC)

/* One with news all the time makes room for others' that often. */
#define SHCA_UAR_TURN_NS	(10 * NSEC_PER_MSEC)

/**
 * struct shca_uar - a UAR page of user space
 * @mentry: its mmap offset; owns one reference of @ref
 * @ref: the ioctl object, and each VMA
 * @dev: the device; valid while not @dead
 * @id: number given by ALLOC_UAR
 * @users: queues that name this UAR; under the xa_lock of shca_ucontext.uars
 * @page: what is mapped, when something is
 * @lock: read: a doorbell is being executed; write: @dead changes
 * @dead: the HCA does not know this UAR any more
 * @map_lock: protects @mapped and @mapping, and orders PTE insertion and zapping
 * @mapped: @poll has to run, because a PTE may exist
 * @mapping: address space of the device node, valid while not @dead
 * @poll: looks at the doorbell records while the page is mapped
 */
struct shca_uar {
	struct shca_user_mmap_entry mentry;
	struct kref ref;
	struct shca_dev *dev;
	u32 id;
	unsigned int users;
	struct page *page;
	struct rw_semaphore lock;
	bool dead;
	struct mutex map_lock;
	bool mapped;
	struct address_space *mapping;
	struct work_struct poll;
};

/* A store as the program meant it. */
struct shca_store {
	u64 value;
	unsigned int offset;
};

static void shca_uar_release(struct kref *ref)
{
	struct shca_uar *uar = container_of(ref, struct shca_uar, ref);

	__free_page(uar->page);
	kfree(uar);
}

static void shca_uar_put(struct shca_uar *uar)
{
	kref_put(&uar->ref, shca_uar_release);
}

/* Returns false when the UAR is dead. */
static bool shca_uar_ring(struct shca_uar *uar, const struct shca_store *store,
			  unsigned int flags)
{
	bool alive;

	down_read(&uar->lock);
	alive = !uar->dead;
	if (alive) {
		shca_count(uar->dev, SHCA_CNT_DOORBELL_TRAP);
		hca_uar_store(uar->dev->hca, uar->id, store->offset, &store->value,
			      sizeof(store->value), flags);
	}
	up_read(&uar->lock);
	return alive;
}

static bool shca_uar_scan(struct shca_uar *uar)
{
	bool news = false;

	down_read(&uar->lock);
	if (!uar->dead)
		news = hca_uar_scan(uar->dev->hca, uar->id);
	up_read(&uar->lock);
	return news;
}

static void shca_uar_poll(struct work_struct *work)
{
	struct shca_uar *uar = container_of(work, struct shca_uar, poll);
	u64 began = ktime_get_ns();
	u64 idle_since = began;

	do {
		if (ktime_get_ns() - began > SHCA_UAR_TURN_NS) {
			queue_work(uar->dev->wq, &uar->poll);
			return;
		}
		if (shca_uar_scan(uar))
			idle_since = ktime_get_ns();
		cond_resched();
	} while (!READ_ONCE(uar->dead) && ktime_get_ns() - idle_since < SHCA_UAR_IDLE_NS);

	mutex_lock(&uar->map_lock);
	if (!uar->dead) {
		unmap_mapping_range(uar->mapping, (loff_t)(SHCA_UAR_PGOFF + uar->id) << PAGE_SHIFT,
				    PAGE_SIZE, 1);
		uar->mapped = false;
	}
	mutex_unlock(&uar->map_lock);

	/* A store between the last scan and the zap did not fault: see its record now. */
	smp_mb();
	shca_uar_scan(uar);
}

static vm_fault_t shca_uar_map(struct vm_fault *vmf, struct shca_uar *uar)
{
	struct vm_area_struct *vma = vmf->vma;
	vm_fault_t ret;

	/* The PTE is inserted under the lock, or a concurrent zap could miss it. */
	mutex_lock(&uar->map_lock);
	ret = vmf_insert_pfn_prot(vma, vmf->address, page_to_pfn(uar->page),
				  vm_get_page_prot(vma->vm_flags));
	if (!uar->dead) {
		if (!uar->mapped)
			shca_count(uar->dev, SHCA_CNT_DOORBELL_MAPPED);
		uar->mapped = true;
		queue_work(uar->dev->wq, &uar->poll);
	}
	mutex_unlock(&uar->map_lock);
	return ret;
}

#ifdef CONFIG_X86_64
static const u8 shca_reg_offset[] = {
	offsetof(struct pt_regs, ax),	offsetof(struct pt_regs, cx),
	offsetof(struct pt_regs, dx),	offsetof(struct pt_regs, bx),
	offsetof(struct pt_regs, sp),	offsetof(struct pt_regs, bp),
	offsetof(struct pt_regs, si),	offsetof(struct pt_regs, di),
	offsetof(struct pt_regs, r8),	offsetof(struct pt_regs, r9),
	offsetof(struct pt_regs, r10),	offsetof(struct pt_regs, r11),
	offsetof(struct pt_regs, r12),	offsetof(struct pt_regs, r13),
	offsetof(struct pt_regs, r14),	offsetof(struct pt_regs, r15),
};

static unsigned long shca_reg(struct pt_regs *regs, u8 reg)
{
	return *(unsigned long *)((void *)regs + shca_reg_offset[reg]);
}

static unsigned long shca_store_address(struct pt_regs *regs, const struct shca_store_insn *insn)
{
	unsigned long addr = (long)insn->disp;

	if (insn->base == SHCA_REG_IP)
		addr += regs->ip + insn->len;
	else if (insn->base != SHCA_REG_NONE)
		addr += shca_reg(regs, insn->base);
	if (insn->index != SHCA_REG_NONE)
		addr += shca_reg(regs, insn->index) << insn->shift;
	return addr;
}

/*
 * Take over the store that faulted: read what it would have written and move the
 * program behind it. Returns false, with nothing changed, if anything is unusual.
 */
static bool shca_trap_store(struct vm_fault *vmf, struct shca_store *store)
{
	const unsigned int need = FAULT_FLAG_USER | FAULT_FLAG_WRITE;
	struct pt_regs *regs = task_pt_regs(current);
	struct shca_store_insn insn;
	u8 code[SHCA_INSN_MAX];
	unsigned long left;

	if ((vmf->flags & (need | FAULT_FLAG_REMOTE)) != need)
		return false;
	/* A debugger expects a stop after the store, which only the CPU can make. */
	if (!user_64bit_mode(regs) || regs->flags & X86_EFLAGS_TF)
		return false;

	pagefault_disable();
	left = __copy_from_user_inatomic(code, (void __user *)regs->ip, sizeof(code));
	pagefault_enable();

	if (!shca_decode_store(code, sizeof(code) - left, &insn))
		return false;
	if (shca_store_address(regs, &insn) != vmf->real_address)
		return false;
	store->offset = offset_in_page(vmf->real_address);
	if (store->offset > PAGE_SIZE - sizeof(store->value))
		return false;

	store->value = shca_reg(regs, insn.reg);
	regs->ip += insn.len;
	/* As the CPU does at the end of an instruction: breakpoints work again. */
	regs->flags &= ~X86_EFLAGS_RF;
	return true;
}
#else
static bool shca_trap_store(struct vm_fault *vmf, struct shca_store *store)
{
	return false;
}
#endif

/* After it has returned true, the VMA may be gone. */
static bool shca_fault_unlock(struct vm_fault *vmf)
{
	if (!(vmf->flags & FAULT_FLAG_ALLOW_RETRY) || vmf->flags & FAULT_FLAG_RETRY_NOWAIT)
		return false;
	if (vmf->flags & FAULT_FLAG_VMA_LOCK)
		vma_end_read(vmf->vma);
	else
		mmap_read_unlock(vmf->vma->vm_mm);
	return true;
}

static vm_fault_t shca_uar_fault(struct vm_fault *vmf)
{
	struct shca_uar *uar = vmf->vma->vm_private_data;
	struct shca_store store;

	if (READ_ONCE(uar->dead) || !shca_trap_store(vmf, &store))
		return shca_uar_map(vmf, uar);

	kref_get(&uar->ref);
	if (!shca_fault_unlock(vmf)) {
		shca_uar_ring(uar, &store, 0);
		shca_uar_put(uar);
		return VM_FAULT_NOPAGE;
	}
	shca_uar_ring(uar, &store, HCA_STORE_INLINE);
	shca_uar_put(uar);
	return VM_FAULT_NOPAGE | VM_FAULT_COMPLETED;
}

/*
 * There is nothing to map around a UAR. With this operation present, the core
 * calls .fault under the VMA lock alone, without a second try under mmap_lock.
 */
static vm_fault_t shca_uar_map_pages(struct vm_fault *vmf, pgoff_t start, pgoff_t end)
{
	return 0;
}

static void shca_uar_vma_open(struct vm_area_struct *vma)
{
	struct shca_uar *uar = vma->vm_private_data;

	kref_get(&uar->ref);
	__module_get(THIS_MODULE);
}

static void shca_uar_vma_close(struct vm_area_struct *vma)
{
	shca_uar_put(vma->vm_private_data);
	module_put(THIS_MODULE);
}

static const struct vm_operations_struct shca_uar_vm_ops = {
	.open = shca_uar_vma_open,
	.close = shca_uar_vma_close,
	.fault = shca_uar_fault,
	.map_pages = shca_uar_map_pages,
};

/**
 * shca_uar_mmap() - map a UAR page
 * @mentry: mmap offset of the UAR; the VMA does not hold it, for it may outlive the
 *	context
 * @vma: the mapping, shared
 *
 * Context: mmap_lock held for write.
 * Return: 0, or -ENODEV when the module is going. Source: kernel-api 4.2.
 */
int shca_uar_mmap(struct shca_user_mmap_entry *mentry, struct vm_area_struct *vma)
{
	struct shca_uar *uar = container_of(mentry, struct shca_uar, mentry);

	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	kref_get(&uar->ref);

	mutex_lock(&uar->map_lock);
	uar->mapping = vma->vm_file->f_mapping;
	mutex_unlock(&uar->map_lock);

	/* Not VM_DONTCOPY: a program that opens the device and then forks keeps its UAR. */
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_pgoff = SHCA_UAR_PGOFF + uar->id;
	vma->vm_private_data = uar;
	vma->vm_ops = &shca_uar_vm_ops;
	return 0;
}

/**
 * shca_uar_mmap_free() - the last reference on an mmap offset is gone
 * @mentry: the offset
 *
 * Context: process.
 */
void shca_uar_mmap_free(struct shca_user_mmap_entry *mentry)
{
	shca_uar_put(container_of(mentry, struct shca_uar, mentry));
}

/**
 * shca_disassociate_ucontext() - the device goes, its files and VMAs stay
 * @ibcontext: the context
 *
 * The core has destroyed the UAR objects before, and with that killed every UAR.
 * There is nothing left to do, but without this function the removal of the
 * device would wait for the programs to exit.
 *
 * Context: process.
 */
void shca_disassociate_ucontext(struct ib_ucontext *ibcontext)
{
}

/**
 * shca_uar_use() - a queue is going to ring a UAR
 * @context: context of the queue
 * @uar_id: number of the UAR
 *
 * Context: process.
 * Return: 0, or -EINVAL when the context has no such UAR. The UAR cannot be
 * deallocated until shca_uar_unuse().
 */
int shca_uar_use(struct shca_ucontext *context, u32 uar_id)
{
	struct shca_uar *uar;

	xa_lock(&context->uars);
	uar = xa_load(&context->uars, uar_id);
	if (uar)
		uar->users++;
	xa_unlock(&context->uars);
	return uar ? 0 : -EINVAL;
}

/**
 * shca_uar_unuse() - the queue is gone
 * @context: context of the queue
 * @uar_id: number of the UAR
 *
 * Context: process.
 */
void shca_uar_unuse(struct shca_ucontext *context, u32 uar_id)
{
	struct shca_uar *uar;

	xa_lock(&context->uars);
	uar = xa_load(&context->uars, uar_id);
	if (uar)
		uar->users--;
	xa_unlock(&context->uars);
}

static struct shca_uar *shca_alloc_uar_entry(struct shca_ucontext *context)
{
	struct shca_dev *dev = to_sdev(context->ibucontext.device);
	struct shca_uar *uar;
	int err;

	uar = kzalloc_obj(*uar, GFP_KERNEL_ACCOUNT);
	if (!uar)
		return ERR_PTR(-ENOMEM);
	uar->page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!uar->page) {
		err = -ENOMEM;
		goto free_uar;
	}
	uar->dev = dev;
	kref_init(&uar->ref);
	init_rwsem(&uar->lock);
	mutex_init(&uar->map_lock);
	INIT_WORK(&uar->poll, shca_uar_poll);

	err = shca_cmd_alloc_uar(dev, context->devx_uid, &uar->id);
	if (err)
		goto free_page;
	if (uar->id > SHCA_UAR_MAX_ID) {
		err = -ENOSPC;
		goto dealloc_uar;
	}
	err = xa_insert(&context->uars, uar->id, uar, GFP_KERNEL);
	if (err)
		goto dealloc_uar;
	uar->mentry.mmap_flag = SHCA_MMAP_TYPE_UAR;
	err = rdma_user_mmap_entry_insert_exact(&context->ibucontext, &uar->mentry.rdma_entry,
						PAGE_SIZE,
						SHCA_MMAP_PGOFF(SHCA_MMAP_CMD_UAR, uar->id));
	if (err)
		goto erase_uar;
	return uar;

erase_uar:
	xa_erase(&context->uars, uar->id);
dealloc_uar:
	shca_cmd_dealloc_uar(dev, context->devx_uid, uar->id);
free_page:
	__free_page(uar->page);
free_uar:
	kfree(uar);
	return ERR_PTR(err);
}

/* Waits for the doorbells that are being executed; later stores vanish. */
static void shca_uar_kill(struct shca_uar *uar)
{
	down_write(&uar->lock);
	mutex_lock(&uar->map_lock);
	WRITE_ONCE(uar->dead, true);
	mutex_unlock(&uar->map_lock);
	up_write(&uar->lock);
	cancel_work_sync(&uar->poll);
}

static int shca_uar_obj_cleanup(struct ib_uobject *uobject, enum rdma_remove_reason why,
				struct uverbs_attr_bundle *attrs)
{
	struct shca_ucontext *context = to_sucontext(uobject->context);
	struct shca_uar *uar = uobject->object;
	bool busy;

	/* At the end of a context its queues went first. */
	xa_lock(&context->uars);
	busy = uar->users && why == RDMA_REMOVE_DESTROY;
	if (!busy)
		__xa_erase(&context->uars, uar->id);
	xa_unlock(&context->uars);
	if (busy)
		return -EBUSY;

	shca_uar_kill(uar);
	shca_cmd_dealloc_uar(uar->dev, context->devx_uid, uar->id);
	rdma_user_mmap_entry_remove(&uar->mentry.rdma_entry);
	return 0;
}

static int UVERBS_HANDLER(MLX5_IB_METHOD_UAR_OBJ_ALLOC)(struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobj =
		uverbs_attr_get_uobject(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE);
	enum mlx5_ib_uapi_uar_alloc_type alloc_type;
	struct ib_ucontext *ibucontext;
	u32 length = PAGE_SIZE;
	struct shca_uar *uar;
	u64 mmap_offset;
	int err;

	ibucontext = ib_uverbs_get_ucontext(attrs);
	if (IS_ERR(ibucontext))
		return PTR_ERR(ibucontext);

	err = uverbs_get_const(&alloc_type, attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE);
	if (err)
		return err;
	/* Both are the same page here; thread domains of libmlx5 ask for BF. */
	if (alloc_type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_BF &&
	    alloc_type != MLX5_IB_UAPI_UAR_ALLOC_TYPE_NC)
		return -EOPNOTSUPP;

	uar = shca_alloc_uar_entry(to_sucontext(ibucontext));
	if (IS_ERR(uar))
		return PTR_ERR(uar);

	mmap_offset = rdma_user_mmap_get_offset(&uar->mentry.rdma_entry);
	uobj->object = uar;
	uverbs_finalize_uobj_create(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE);

	err = uverbs_copy_to(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &mmap_offset,
			     sizeof(mmap_offset));
	if (err)
		return err;
	err = uverbs_copy_to(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &uar->id,
			     sizeof(uar->id));
	if (err)
		return err;
	return uverbs_copy_to(attrs, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &length,
			      sizeof(length));
}

DECLARE_UVERBS_NAMED_METHOD(
	MLX5_IB_METHOD_UAR_OBJ_ALLOC,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE,
			MLX5_IB_OBJECT_UAR,
			UVERBS_ACCESS_NEW,
			UA_MANDATORY),
	UVERBS_ATTR_CONST_IN(MLX5_IB_ATTR_UAR_OBJ_ALLOC_TYPE,
			     enum mlx5_ib_uapi_uar_alloc_type,
			     UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID,
			    UVERBS_ATTR_TYPE(u32),
			    UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH,
			    UVERBS_ATTR_TYPE(u32),
			    UA_MANDATORY),
	UVERBS_ATTR_PTR_OUT(MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET,
			    UVERBS_ATTR_TYPE(u64),
			    UA_MANDATORY));

DECLARE_UVERBS_NAMED_METHOD_DESTROY(
	MLX5_IB_METHOD_UAR_OBJ_DESTROY,
	UVERBS_ATTR_IDR(MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE,
			MLX5_IB_OBJECT_UAR,
			UVERBS_ACCESS_DESTROY,
			UA_MANDATORY));

DECLARE_UVERBS_NAMED_OBJECT(MLX5_IB_OBJECT_UAR,
			    UVERBS_TYPE_ALLOC_IDR(shca_uar_obj_cleanup),
			    &UVERBS_METHOD(MLX5_IB_METHOD_UAR_OBJ_ALLOC),
			    &UVERBS_METHOD(MLX5_IB_METHOD_UAR_OBJ_DESTROY));

const struct uapi_definition shca_uar_defs[] = {
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(MLX5_IB_OBJECT_UAR),
	{}
};
